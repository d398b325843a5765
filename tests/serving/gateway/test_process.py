from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings

if TYPE_CHECKING:
    from tests.serving.gateway.conftest import Rig

    StartRig = Callable[..., Awaitable[Rig]]

pytestmark = pytest.mark.peer


def settings(**changes: Any) -> GatewaySettings:
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for probe in (a, b, c):
            probe.bind(("127.0.0.1", 0))
        ports = [probe.getsockname()[1] for probe in (a, b, c)]
    given = dict(zip(("port", "canary_port", "metrics_port"), ports, strict=True))
    fleets = (GatewayFleet(name="llama", models=("m1",)),)
    return GatewaySettings(**{"fleets": fleets, **given, **changes})


async def test_it_is_ready_when_start_returns_and_gone_soon_after_stop(tmp_path: Path) -> None:
    given = settings()
    process = GatewayProcess(given, tmp_path)
    await process.start()
    pid = process.pid
    assert pid is not None
    _, writer = await asyncio.open_connection("127.0.0.1", given.port)
    begin = time.monotonic()

    await process.stop()

    assert time.monotonic() - begin < 2
    assert process.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    writer.close()


async def test_it_starts_again_in_the_same_folder(tmp_path: Path) -> None:
    process = GatewayProcess(settings(), tmp_path)
    for _ in range(2):
        async with process:
            assert await process.runtime.pid() == process.pid


async def test_a_taken_port_is_told_in_haproxy_s_words(rig: StartRig, tmp_path: Path) -> None:
    other = await rig()
    process = GatewayProcess(settings(port=other.settings.port), tmp_path / "second")

    with pytest.raises(GatewayError, match=r"(?s)cannot bind.*Address already in use"):
        await process.start()

    assert process.pid is None


async def test_a_missing_haproxy_is_told(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="there is no haproxy-of-nobody here"):
        await GatewayProcess(settings(), tmp_path, binary="haproxy-of-nobody").start()


async def test_a_missing_keys_file_is_told_and_does_not_open_the_gateway(tmp_path: Path) -> None:
    process = GatewayProcess(settings(keys_file=tmp_path / "none"), tmp_path / "gw")

    with pytest.raises(SpecError, match="none: No such file or directory, must be a readable"):
        await process.start()

    assert process.pid is None


async def test_keys_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xff\xfe")

    with pytest.raises(SpecError, match="keys: not UTF-8 text"):
        await GatewayProcess(settings(keys_file=tmp_path / "keys"), tmp_path / "gw").start()


async def test_a_folder_too_deep_for_a_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="choose a shorter folder"):
        await GatewayProcess(settings(), tmp_path / ("x" * 120)).start()


async def test_a_runtime_without_a_gateway_says_so(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="does not answer"):
        await GatewayProcess(settings(), tmp_path).runtime.stats()


PARENT = """
import asyncio, sys
from pathlib import Path
from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings

async def main():
    ports = dict(zip(("port", "canary_port", "metrics_port"), map(int, sys.argv[2:])))
    fleets = (GatewayFleet(name="llama", models=("m1",)),)
    process = GatewayProcess(GatewaySettings(fleets=fleets, **ports), Path(sys.argv[1]))
    await process.start()
    print(process.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_it_dies_with_its_parent(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    given = settings()
    ports = [str(port) for port in (given.port, given.canary_port, given.metrics_port)]
    with subprocess.Popen(  # noqa: ASYNC220 - its first line is all that is waited for
        [sys.executable, "-c", PARENT, str(tmp_path), *ports],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(pytestconfig.rootpath / "serving")},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())

        parent.send_signal(signal.SIGKILL)

    async with asyncio.timeout(2):
        while _alive(pid):  # noqa: ASYNC110 - no child of ours: nothing tells its end
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        # An orphan may stay a zombie where nobody reaps: that is dead too.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
