"""Child processes that never outlive the run: each in its own group, stopped by its pid."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from neuronfleet.serving.gateway.process import die_with
from neuronfleet.serving.local.errors import LocalError


class Child:
    """One process with its log file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    @classmethod
    async def start(
        cls, arguments: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> "Child":
        """Run a program with its output in `log`.

        Raises:
            LocalError: the program is not there, or the log cannot be written.
        """
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=None if env is None else {**os.environ, **env},
                    start_new_session=True,
                    preexec_fn=die_with(os.getpid()),
                )
        except FileNotFoundError as wrong:
            raise LocalError(f"{arguments[0]} is not installed; `make up` installs it") from wrong
        except OSError as wrong:
            raise LocalError(f"cannot start {arguments[0]}: {wrong}") from wrong
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Its process id, and that of its group."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.returncode is None

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def stop(self, patience_s: float = 1.5) -> None:
        """End it: SIGTERM, and SIGKILL for what is left after `patience_s` real seconds."""
        if self.alive:
            self.signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self.process.wait()
        # Grandchildren of a child that left by itself too.
        self.signal(signal.SIGKILL)
        await self.process.wait()

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "no log"
        return lines[-1][:300] if lines else "no output"


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def free_port_from(wanted: int, tries: int = 50) -> int:
    """`wanted`, or the next port above it that is free.

    Raises:
        LocalError: none of them is.
    """
    for port in range(wanted, min(wanted + tries, 65_536)):
        with socket.socket() as one, suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", port))
            return port
    raise LocalError(f"port = {wanted}, and the {tries} above it are taken: name another")
