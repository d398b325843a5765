"""What the gateway's benchmarks share: emulated replicas in one process, behind a real HAProxy."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings
from neuronfleet.serving.local.children import free_port
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel

MODEL = "bench"


def timing(prefill_ms: float, step_ms: float) -> TimingModel:
    """A replica whose prompts and steps take these times, whatever their length."""
    return TimingModel(
        prefill=Buckets(tokens=(4096,), ms=(prefill_ms,)),
        decode=Buckets(tokens=(4096,), ms=(step_ms,)),
        basis=Basis.MEASURED,
        source="made up for a benchmark",
    )


@contextmanager
def emulators(count: int, settings: ReplicaSettings) -> Iterator[list[int]]:
    """`count` emulated replicas in one process; their ports."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "settings.json"
        file.write_text(json.dumps([asdict(settings)] * count))
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "neuronfleet.serving.emulator"),
                *("--settings", str(file), "--die-with-parent"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield list(_ports(server, count))
        finally:
            server.kill()
            server.wait()


def _ports(server: subprocess.Popen[str], count: int) -> Iterator[int]:
    found = 0
    for line in server.stdout or ():
        if line.startswith("{") and (event := json.loads(line))["event"] == "listening":
            yield int(event["port"])
            found += 1
            if found == count:
                return


@asynccontextmanager
async def gateway(ports: list[int], ceiling: int, *, queue_s: float) -> AsyncIterator[str]:
    """A gateway before these replicas; its endpoint, which ends in /v1."""
    settings = GatewaySettings(
        fleets=(GatewayFleet(name=MODEL, models=(MODEL,), queue_seconds=queue_s),),
        port=free_port(),
        canary_port=free_port(),
        metrics_port=free_port(),
    )
    with TemporaryDirectory() as folder:
        async with GatewayProcess(settings, Path(folder)) as process:
            for number, port in enumerate(ports):
                await process.runtime.add_replica(MODEL, f"r{number}", "127.0.0.1", port, ceiling)
            yield f"http://127.0.0.1:{settings.port}/v1"


def replica(slots: int, model: TimingModel, *, time_scale: float = 1.0) -> ReplicaSettings:
    """One emulated replica of the benchmarks."""
    return ReplicaSettings(
        models=(MODEL,), timing=model, slots=slots, max_model_len=4096, time_scale=time_scale
    )
