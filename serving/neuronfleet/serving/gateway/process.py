"""One HAProxy process: its files written, started, awaited, and stopped by its pid."""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.admission import CONFIG_FILE, KEYS_MAP, SOCKET_FILE
from neuronfleet.serving.gateway.config import files
from neuronfleet.serving.gateway.control import ControlSocket
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.keys import ClientKey, KeyChanges, keys_map, parse_keys
from neuronfleet.serving.gateway.runtime import GatewayRuntime
from neuronfleet.serving.gateway.settings import GatewaySettings

START_SECONDS = 10.0
STOP_SECONDS = 1.5
LOG_FILE = "haproxy.log"
# A socket's path has at most 107 bytes, and HAProxy adds its pid and ".tmp" while it binds.
MAX_SOCKET_PATH = 107

_PR_SET_PDEATHSIG = 1
# Loaded here, since little is safe between fork and exec.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class HAProxy:
    """One HAProxy as a child of this process; it dies when this process does."""

    def __init__(self, control: ControlSocket, directory: Path, *, binary: str = "haproxy") -> None:
        self._control = control
        self._directory = directory
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if alive and self._process else None

    async def start(self, texts: Mapping[str, str], keys: tuple[ClientKey, ...] = ()) -> None:
        """Write `texts` and start; return once every port is bound and the runtime API answers."""
        if self.pid is not None:
            raise GatewayError("the gateway runs already")
        program = _find(self._binary)
        _write_files(self._directory, texts, keys)
        self._process = _spawn(program, self._directory)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await self._answers():  # noqa: ASYNC110 - another process tells no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            await self.stop()
            raise GatewayError(f"the gateway did not answer in {START_SECONDS} s") from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop at once: streams are cut. Drain the replicas first where that matters."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def finish(self) -> None:
        """Listen no more, and end by itself with the last stream."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    async def _answers(self) -> bool:
        process = self._process
        if process is None or process.poll() is not None:
            raise GatewayError(f"haproxy ended: {self._messages()}")
        try:
            # Not another gateway's answer on a socket that it left in this folder.
            return await self._control.pid() == process.pid
        except GatewayError:
            return False

    def _messages(self) -> str:
        lines = (self._directory / LOG_FILE).read_text(errors="replace").splitlines()
        told = [line for line in lines if not line.startswith("[NOTICE]")]
        return "\n".join(told or lines) or "without a word"


class GatewayProcess:
    """The gateway of one machine."""

    def __init__(
        self, settings: GatewaySettings, directory: Path, *, binary: str = "haproxy"
    ) -> None:
        names = [fleet.name for fleet in settings.fleets]
        self.runtime = GatewayRuntime(names, settings.check_seconds, directory)
        self._settings = settings
        self._haproxy = HAProxy(self.runtime, directory, binary=binary)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        return self._haproxy.pid

    async def start(self) -> None:
        """Start, and return once every port is bound and the runtime API answers."""
        await self._haproxy.start(files(self._settings), self._keys())

    async def stop(self) -> None:
        """Stop at once: streams are cut. Drain the replicas first where that matters."""
        await self._haproxy.stop()

    async def reload_keys(self) -> KeyChanges:
        """Read the keys' file again; a file with problems changes nothing."""
        if self._settings.keys_file is None:
            raise GatewayError("the gateway was started without keys")
        return await self.runtime.set_keys(self._keys())

    def _keys(self) -> tuple[ClientKey, ...]:
        path = self._settings.keys_file
        return () if path is None else (*read_keys(path), *self._settings.own_keys)


def _write_files(directory: Path, texts: Mapping[str, str], keys: tuple[ClientKey, ...]) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = os.fsencode((directory / SOCKET_FILE).absolute())
    if len(path) > MAX_SOCKET_PATH:
        raise GatewayError(
            f"{os.fsdecode(path)} has {len(path)} bytes, a socket's path has at most"
            f" {MAX_SOCKET_PATH}: choose a shorter folder"
        )
    for name, text in texts.items():
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(text)
    keys_path = directory / KEYS_MAP
    keys_path.touch(mode=0o600)
    keys_path.write_text(keys_map(keys))


def read_keys(path: Path) -> tuple[ClientKey, ...]:
    """The keys of a file.

    Raises:
        SpecError: it cannot be read, or has lines that will not do.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SpecError(f"{path}: {reason}, must be a readable file of API keys") from error
    return parse_keys(text, str(path))


def _find(binary: str) -> str:
    # Debian keeps haproxy where the PATH of a common user does not look.
    found = shutil.which(binary, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise GatewayError(f"there is no {binary} here: install HAProxy 2.6 or later")
    return found


def _spawn(program: str, directory: Path) -> subprocess.Popen[bytes]:
    with (directory / LOG_FILE).open("wb") as log:
        return subprocess.Popen(
            [program, "-db", "-f", CONFIG_FILE],
            # The socket's name is relative, which keeps it short.
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with(os.getpid()),
        )


def die_with(parent: int) -> Callable[[], None]:
    """What a child calls between fork and exec, so that it ends when `parent` does."""

    def ask_for_the_signal() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before that.
        if os.getppid() != parent:
            os._exit(1)

    return ask_for_the_signal
