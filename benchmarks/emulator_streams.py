"""How many streams one emulator process holds in time: 16 engines of 31 streams at real speed.

Starts a server process on one core and a client process on another; the client counts chunks with
a raw protocol. Before and after, a bare timer on the server's core is measured, and meanwhile what
other processes take of the host: where the timer is late or they take much, the run is void.
All figures are of emulated streams, not of a device.

    python benchmarks/emulator_streams.py [--engines 16] [--streams 31] [--seconds 20]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import cast

import uvloop

from neuronfleet.serving.emulator.serve import ReplicaSettings
from neuronfleet.serving.replica.replay import quantile
from neuronfleet.serving.replica.timings import fitted

TIMING = fitted()[0].timing  # Llama 3.1 8B on inf2.xlarge
PROMPT_TOKENS = 1000
OUTPUT_TOKENS = 1047  # with the prompt, all of a context of 2048 but one
LATE_LIMIT_MS = 5.0
BARE_LIMIT_MS = 2.0
"""A bare timer that is later than this at p99 shows a host too busy to judge by."""


OTHERS_LIMIT = 0.3
"""Cores that other processes may take meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Quantiles of lateness, in real milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


def pin(core: int) -> None:
    """Keep this process to one core, where there are as many."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


async def bare_timer(seconds: float) -> Late:
    """Lateness of a timer of 5 ms in a loop that does nothing else."""
    late, end = [], time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        await asyncio.sleep(0.005)
        late.append((time.monotonic() - now - 0.005) * 1000)
    return summary(late)


def summary(late: list[float]) -> Late:
    """Quantiles of a list that holds some."""
    p50, p99 = quantile(late, 0.5), quantile(late, 0.99)
    if p50 is None or p99 is None:
        raise ValueError("late = [], must hold at least one value")
    return Late(p50_ms=p50, p99_ms=p99, max_ms=max(late))


class Client(asyncio.Protocol):
    """One stream: sends its request, counts the events that come back."""

    chunks = 0
    started = 0
    lost = 0

    def __init__(self, port: int) -> None:
        ids = list(range(PROMPT_TOKENS))
        asked = {"prompt": ids, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True, "stream": True}
        body = json.dumps(asked).encode()
        self._request = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self._first = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        # uvloop's transports are no subclass of asyncio's, so this cannot be tested.
        cast(asyncio.WriteTransport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count."""
        events = data.count(b"data: {")
        Client.chunks += events
        if events and self._first:
            self._first = False
            Client.started += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Count what should not happen."""
        Client.lost += 1


def busy_seconds() -> float:
    """CPU seconds that the host has spent on anything."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, *more = (int(field) for field in fields)
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")


def own_seconds(server: int) -> float:
    """CPU seconds that the server and this process have spent."""
    fields = Path(f"/proc/{server}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


async def drive(server: int, ports: list[int], streams: int, seconds: float) -> dict[str, float]:
    """Open all streams, wait until all decode, then count chunks for a while."""
    loop = asyncio.get_running_loop()
    for port in ports * streams:
        await loop.create_connection(partial(Client, port), "127.0.0.1", port)
    async with asyncio.timeout(60):
        while Client.started < streams * len(ports):  # noqa: ASYNC110 - counted in a hot path
            await asyncio.sleep(0.1)
    # Past 1024 tokens all run the last bucket, so that the ideal rate is one number.
    await asyncio.sleep((1024 - PROMPT_TOKENS) * TIMING.step_cost(1023, streams) / 1000 + 1)
    for port in ports:
        await loop.run_in_executor(None, post, f"http://127.0.0.1:{port}/emulator/lateness/reset")
    began, before = time.monotonic(), Client.chunks
    cpu, busy, own = time.process_time(), busy_seconds(), own_seconds(server)
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    return {
        "chunks_per_second": (Client.chunks - before) / took,
        "lost": Client.lost,
        "client_cpu": (time.process_time() - cpu) / took,
        "others": (busy_seconds() - busy - own_seconds(server) + own) / took,
    }


def post(url: str) -> None:
    """POST nothing."""
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as reply:
        reply.read()


def state(port: int) -> dict[str, object]:
    """The emulator's own account."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/emulator/state", timeout=10) as reply:
        found: dict[str, object] = json.loads(reply.read())
    return found


def start_server(
    engines: int, streams: int, folder: Path
) -> tuple[subprocess.Popen[str], list[int]]:
    """A server process and the ports of its engines."""
    one = asdict(
        ReplicaSettings(models=("bench",), timing=TIMING, slots=streams, max_model_len=2048)
    )
    file = folder / "settings.json"
    file.write_text(json.dumps([one] * engines))
    command = [sys.executable, "-m", "neuronfleet.serving.emulator", "--settings", str(file)]
    server = subprocess.Popen(
        [*command, "--die-with-parent"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: pin(0),
    )
    ports: list[int] = []
    for line in server.stdout or ():
        if line.startswith("{") and (event := json.loads(line))["event"] == "listening":
            ports.append(event["port"])
            if len(ports) == engines:
                break
    return server, ports


def main() -> None:
    """Run it and print what came out."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--engines", type=int, default=16)
    line.add_argument("--streams", type=int, default=31)
    line.add_argument("--seconds", type=float, default=20.0)
    options = line.parse_args()
    pin(0)
    bare = [uvloop.run(bare_timer(3.0))]
    with tempfile.TemporaryDirectory() as folder:
        server, ports = start_server(options.engines, options.streams, Path(folder))
        try:
            pin(1)
            seen = uvloop.run(drive(server.pid, ports, options.streams, options.seconds))
            states = [state(port) for port in ports]
        finally:
            server.kill()
            server.wait()
    pin(0)
    bare.append(uvloop.run(bare_timer(3.0)))
    report(options, seen, states, bare)


def report(
    options: argparse.Namespace,
    seen: dict[str, float],
    states: list[dict[str, object]],
    bare: list[Late],
) -> None:
    """Print the figures and what they amount to."""
    streams = options.engines * options.streams
    ideal = streams * 1000 / TIMING.step_cost(1100, options.streams)
    late = [one for found in states if isinstance(one := found["lateness"], dict)]
    worst = max(float(one["p99_ms"]) for one in late)
    middle = max(float(one["p50_ms"]) for one in late)
    print(f"emulated streams      {options.engines} x {options.streams} = {streams}")
    print(f"chunks a second       {seen['chunks_per_second']:.0f} of {ideal:.0f} ideal")
    print(f"ratio                 {seen['chunks_per_second'] / ideal:.4f}")
    print(f"starts late, worst engine   p50 {middle:.2f} ms   p99 {worst:.2f} ms")
    usual = quantile([float(one["p99_ms"]) for one in late], 0.5) or 0.0
    print(f"starts late, median engine  p99 {usual:.2f} ms")
    print(f"starts late, largest ever   {max(float(one['max_ms']) for one in late):.2f} ms")
    for when, one in zip(("before", "after"), bare, strict=True):
        print(f"bare timer {when:10} p50 {one.p50_ms:.2f} ms   p99 {one.p99_ms:.2f} ms")
    print(f"client CPU            {seen['client_cpu']:.2f} of a core, {seen['lost']:.0f} lost")
    print(f"other processes       {seen['others']:.2f} cores meanwhile")
    if seen["others"] > OTHERS_LIMIT:
        print(f"void: host busy, others took over {OTHERS_LIMIT} cores")
    elif max(one.p99_ms for one in bare) > BARE_LIMIT_MS:
        print(f"void: host busy, a bare timer alone was over {BARE_LIMIT_MS} ms late at p99")
    else:
        print("met" if worst <= LATE_LIMIT_MS else f"missed: must be in [0, {LATE_LIMIT_MS}] ms")
        sys.exit(0 if worst <= LATE_LIMIT_MS else 1)


if __name__ == "__main__":
    main()
