"""Emulated replicas for the tests: in this process, and as a process of their own."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from neuronfleet.serving.emulator.serve import Replica, ReplicaSettings
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel
from tests.serving.emulator.helpers import (
    Call,
    Caller,
    Process,
    Spawn,
    Start,
)

TIMING = TimingModel(
    prefill=Buckets(tokens=(256, 512, 1024, 2048), ms=(54.5, 99.5, 174.5, 355.5)),
    prefill_ms_per_token=0.0345,
    host_ms=7,
    decode=Buckets(tokens=(256, 512, 1024, 2048), ms=(42, 47, 50.9, 63)),
    decode_ms_per_slot=0.06,
    first_ms=628,
    basis=Basis.MEASURED,
    source="test",
)


@pytest.fixture(scope="session")
def settings() -> ReplicaSettings:
    return ReplicaSettings(
        models=("tiny", "alias"),
        timing=TIMING,
        slots=8,
        max_model_len=2048,
        state_port=0,
        time_scale=500.0,
        void_above_ms=1e9,
    )


@pytest.fixture
async def start(settings: ReplicaSettings) -> AsyncIterator[Start]:
    """Start a replica in this loop, its settings changed as given, and wait for its boot."""
    started: list[Replica] = []

    async def begin(*, wait: bool = True, log: list[str] | None = None, **changes: Any) -> Replica:
        lines = [] if log is None else log
        replica = Replica(replace(settings, **changes), log=lines.append)
        started.append(replica)
        await replica.start()
        if wait:
            await replica.ready()
        return replica

    yield begin
    for replica in started:
        await replica.stop()


@pytest.fixture
async def call() -> AsyncIterator[Call]:
    """Make a client of a replica."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield lambda replica: Caller(session, replica)


@pytest.fixture
def spawn(settings: ReplicaSettings, tmp_path: Path) -> Iterator[Spawn]:
    """Start a replica as a process."""
    started: list[Process] = []

    def begin(*arguments: str, **changes: Any) -> Process:
        process = Process(replace(settings, **changes), tmp_path, *arguments)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.end()


@pytest.fixture(scope="module")
def emulator_url(
    settings: ReplicaSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A process that a blocking client may talk to."""
    process = Process(settings, tmp_path_factory.mktemp("emulator"), "--die-with-parent")
    try:
        yield f"http://127.0.0.1:{process.event('listening')['port']}"
    finally:
        process.end()
