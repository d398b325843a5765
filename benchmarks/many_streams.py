"""Two thousand streams held at once through the gateway, at a token rate that all keep up with.

Sixteen emulated engines of 125 slots in one process, one real HAProxy, one client that counts
chunks with a raw protocol. Steps take 500 ms, so that two cores carry all of it: 4,000 chunks a
second. The run is void where the emulator's steps start late or the client misses chunks.

    python benchmarks/many_streams.py [--seconds 20]
"""

import argparse
import asyncio
import json
import sys
from functools import partial
from urllib.parse import urlsplit

import uvloop
from emulator_streams import Client
from overload import state
from parts import MODEL, emulators, gateway, replica, timing

ENGINES, SLOTS, STEP_MS = 16, 125, 500.0
LATE_LIMIT_MS = 50.0
"""A tenth of a step, in which one process writes 2,000 chunks: beyond it the emulator does not keep
its own token rate."""
OUTPUT_TOKENS = 3000


async def hold(ports: list[int], seconds: float) -> tuple[float, int, list[dict[str, object]]]:
    """Open all streams and count for a while: chunks a second, streams lost, engines' states."""
    streams = ENGINES * SLOTS
    async with gateway(ports, SLOTS, queue_s=60.0) as endpoint:
        port = urlsplit(endpoint).port or 0
        loop = asyncio.get_running_loop()
        for number in range(streams):
            await loop.create_connection(partial(Asking, port), "127.0.0.1", port)
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(120):
            while Client.started < streams:  # noqa: ASYNC110 - counted in a hot path
                await asyncio.sleep(0.1)
        before, began = Client.chunks, loop.time()
        await asyncio.sleep(seconds)
        rate = (Client.chunks - before) / (loop.time() - began)
        states = [await asyncio.to_thread(state, port) for port in ports]
        return rate, Client.lost, states


class Asking(Client):
    """One stream through the gateway."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        asked = {
            "model": MODEL,
            "prompt": "one",
            "max_tokens": OUTPUT_TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        body = json.dumps(asked).encode()
        self._request = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body


def main() -> None:
    """Run it and print what came out."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--seconds", type=float, default=20.0)
    seconds = line.parse_args().seconds
    with emulators(ENGINES, replica(SLOTS, timing(1.0, STEP_MS))) as ports:
        rate, lost, states = uvloop.run(hold(ports, seconds))
    held = sum(int(str(one["held"])) for one in states)
    late = max(float(one["lateness"]["p99_ms"]) for one in states)  # type: ignore[index] # its JSON
    ideal = ENGINES * SLOTS * 1000 / STEP_MS
    print(f"emulated streams   {held} held at once of {ENGINES * SLOTS}, {lost} lost")
    print(f"chunks a second    {rate:.0f} of {ideal:.0f} ideal, ratio {rate / ideal:.3f}")
    print(f"starts late        p99 {late:.2f} ms, worst engine")
    if late > LATE_LIMIT_MS:
        print(f"void: the emulator fell behind, p99 must be in [0, {LATE_LIMIT_MS:g}] ms")
        sys.exit(1)
    good = held == ENGINES * SLOTS and lost == 0 and rate / ideal > 0.97
    print("met" if good else "missed")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
