"""The socket on which one running HAProxy takes commands."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from neuronfleet.serving.gateway.admission import KEYS_MAP, SOCKET_FILE
from neuronfleet.serving.gateway.errors import GatewayCommandError, GatewayError
from neuronfleet.serving.gateway.keys import ClientKey, KeyChanges


class ControlSocket:
    """HAProxy's runtime API, over the socket in its folder."""

    def __init__(self, directory: Path, timeout_seconds: float = 5.0) -> None:
        self._socket = str(directory / SOCKET_FILE)
        self._timeout_seconds = timeout_seconds

    async def act(self, command: str, expected: str = "") -> None:
        """Give a command; a GatewayCommandError where the answer is not `expected`."""
        answer = await self.ask(command)
        if answer.strip() != expected:
            raise GatewayCommandError(command, answer)

    async def ask(self, command: str) -> str:
        """The answer to a command."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._exchange(command)
        except OSError as error:  # a timeout is one too
            raise GatewayError(f"{self._socket} does not answer {command!r}: {error!r}") from error

    async def pid(self) -> int:
        """The process that answers on the socket."""
        found = re.search(r"^Pid: (\d+)$", await self.ask("show info"), re.MULTILINE)
        if not found:
            raise GatewayError("the gateway does not name its pid")
        return int(found[1])

    async def entries(self, name: str) -> dict[str, str]:
        """The entries of a map."""
        # Lines of `reference key value`.
        lines = (await self.ask(f"show map {name}")).splitlines()
        words = (line.split(maxsplit=2) for line in lines if line.startswith("0x"))
        return {word[1]: word[2] for word in words}

    async def set_entries(self, name: str, wanted: Mapping[str, str]) -> KeyChanges:
        """Make a map that of `wanted`, additions first."""
        running = await self.entries(name)
        added = [k for k in wanted if k not in running]
        changed = [k for k in wanted if k in running and running[k] != wanted[k]]
        removed = [k for k in running if k not in wanted]
        for verb, keys in (("add", added), ("set", changed)):
            for key in keys:
                await self.act(f"{verb} map {name} {key} {wanted[key]}")
        for key in removed:
            await self.act(f"del map {name} {key}")
        return KeyChanges(added=len(added), removed=len(removed), reclassed=len(changed))

    async def set_keys(self, keys: tuple[ClientKey, ...]) -> KeyChanges:
        """Make the running map that of `keys`."""
        return await self.set_entries(KEYS_MAP, {key.sha256: str(key.traffic) for key in keys})

    async def _exchange(self, command: str) -> str:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(command.encode() + b"\n")
            return (await reader.read()).decode(errors="replace")
        finally:
            writer.close()
