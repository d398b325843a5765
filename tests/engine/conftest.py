"""A real vLLM on CPU for the whole session, in its own environment, built on first use."""

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.local.children import Child
from neuronfleet.serving.local.vllm import VllmEngine
from tests.local_fleet import serving_fleet, setup

_BOOT_S = 300.0


def engine_fleet() -> ServingFleet:
    """A fleet whose one variant holds 8 sequences of 2,048 tokens."""
    variant = {
        "name": "cpu",
        "instanceType": "inf2.xlarge",
        "tensorParallelDegree": 2,
        "maxModelLen": 2048,
        "maxNumSeqs": 8,
    }
    return setup(serving_fleet("tiny", variants=[variant])).manifest.fleets[0]


@pytest.fixture(scope="session")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where one vLLM serves the tiny model, without /v1."""
    directory = tmp_path_factory.mktemp("vllm")
    with asyncio.Runner() as runner:
        child, port = runner.run(_start(directory))
        try:
            _await_health(port, child)
            yield f"http://127.0.0.1:{port}"
        finally:
            runner.run(child.stop(10.0))


async def _start(directory: Path) -> tuple[Child, int]:
    engine, fleet = VllmEngine(print), engine_fleet()
    await engine.prepare()
    launch = engine.launch(fleet, fleet.variants[0], "tiny", directory)
    child = await Child.start(launch.arguments, log=directory / "vllm.log", env=launch.env)
    return child, launch.port


def _await_health(port: int, child: Child) -> None:
    deadline = time.monotonic() + _BOOT_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline or not Path(f"/proc/{child.pid}").exists():
                pytest.fail(f"vLLM does not serve: {child.last_words()}")
            time.sleep(0.5)
