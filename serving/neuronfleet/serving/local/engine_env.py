"""The engine environment: torch and vLLM on CPU, made on first use, apart from the product."""

import asyncio
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

from neuronfleet.serving.local.children import Child
from neuronfleet.serving.local.errors import LocalError

LOCK = Path(__file__).with_name("engine.lock")
_TIMEOUT_S = 1800.0


def cache_directory() -> Path:
    """Where what is built once is kept, named by the lock that it was built from."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    return Path(root) / "neuronfleet" / digest


async def engine_environment(say: Callable[[str], None]) -> Path:
    """The environment's directory, built from the lock where it is not there yet.

    Raises:
        LocalError: it could not be built; names the log.
    """
    directory = cache_directory() / "engine"
    complete = directory / ".complete"
    if complete.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    say(f"building the engine environment (torch and vLLM, 6.3 GB, minutes) in {directory}")
    log = directory.parent / "engine.log"
    await _run((sys.executable, "-m", "venv", str(directory)), log)
    await _run(_install(directory), log)
    complete.touch()
    return directory


def _install(directory: Path) -> tuple[str, ...]:
    """The command that installs the lock: uv where it is there, a quarter of pip's time."""
    python = str(directory / "bin/python")
    if importlib.util.find_spec("uv") is not None:
        uv = (sys.executable, "-m", "uv", "pip", "sync", "--quiet", "--python", python)
        return (*uv, "--require-hashes", str(LOCK))
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
    return (*pip, "-r", str(LOCK))


async def _run(arguments: tuple[str, ...], log: Path) -> None:
    child = await Child.start(arguments, log=log)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            code = await child.process.wait()
    except TimeoutError as wrong:
        raise LocalError(f"the engine environment was not built in time; see {log}") from wrong
    finally:
        await child.stop()
    if code != 0:
        raise LocalError(f"the engine environment was not built: {child.last_words()}; see {log}")


if __name__ == "__main__":
    try:
        print(f"engine environment: {asyncio.run(engine_environment(print))}")
    except LocalError as failed:
        sys.exit(f"error: {failed}")
