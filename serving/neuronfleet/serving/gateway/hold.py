"""The request that occupies a queue's hold for good, from its beginning to its end."""

import asyncio
from contextlib import suppress
from pathlib import Path

from neuronfleet.serving.gateway.queue_config import HOLD_IN_SOCKET, HOLD_SOCKET
from neuronfleet.serving.gateway.runtime import GatewayRuntime

_START_S = 5.0


class Hold:
    """Both ends of one request that never gets an answer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()
        self._ends: list[asyncio.StreamWriter] = []

    @property
    def on(self) -> bool:
        """Whether the hold's one slot is taken."""
        return bool(self._ends)

    async def listen(self) -> None:
        """Be there for HAProxy to connect to."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = await asyncio.start_unix_server(
            self._accept, str(self._directory / HOLD_SOCKET)
        )

    async def take(self, runtime: GatewayRuntime, fleet: str) -> None:
        """Take the hold's slot, then put the hold among the servers."""
        self._arrived.clear()
        _, writer = await asyncio.open_unix_connection(str(self._directory / HOLD_IN_SOCKET))
        writer.write(b"GET / HTTP/1.1\r\nhost: hold\r\n\r\n")
        self._ends.append(writer)
        try:
            async with asyncio.timeout(_START_S):
                await self._arrived.wait()
            await runtime.set_hold(fleet, held=True)
        except BaseException:
            self._drop()
            raise

    async def give(self, runtime: GatewayRuntime, fleet: str) -> None:
        """Take the hold from the servers, then end its request."""
        await runtime.set_hold(fleet, held=False)
        self._drop()

    async def close(self) -> None:
        """Be gone."""
        self._drop()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _drop(self) -> None:
        ends, self._ends = self._ends, []
        for writer in ends:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.append(writer)
        self._arrived.set()
        with suppress(OSError):
            while await reader.read(4096):
                pass
        writer.close()
