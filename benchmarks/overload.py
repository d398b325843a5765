"""Four times more than a fleet can carry, for a minute: ceilings hold, every request ends well.

Four emulated replicas of 8 slots behind a real HAProxy, an open Poisson load of four times what
their slots carry. Each replica counts itself what it holds. A request either completes whole or is
refused with 503 or 429; anything else is a failure of the bar.

    python benchmarks/overload.py [--seconds 60]
"""

import argparse
import asyncio
import json
import sys
import urllib.request

import uvloop
from parts import MODEL, emulators, gateway, replica, timing

from neuronfleet.serving.api.traffic import Lengths, Objective
from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.bench.summary import Summary
from neuronfleet.serving.simulator.arrivals import Steady, arrivals

REPLICAS, SLOTS, OUTPUT_TOKENS = 4, 8, 20
PREFILL_MS, STEP_MS = 20.0, 50.0
OVERLOAD = 4.0
OBJECTIVE = Objective(ttft_ms=3000, tpot_ms=80, percentile=90, attainment=0.95)


def carried() -> float:
    """Requests a second that all slots carry."""
    return REPLICAS * SLOTS / ((PREFILL_MS + STEP_MS * (OUTPUT_TOKENS - 1)) / 1000)


async def overload(ports: list[int], seconds: float) -> tuple[Summary, list[dict[str, object]]]:
    """Send the load; the client's summary and each replica's own state."""
    rate = OVERLOAD * carried()
    async with gateway(ports, SLOTS, queue_s=2.0) as endpoint:
        client = LoadClient(
            endpoint,
            MODEL,
            arrivals(
                Steady(rate=rate),
                Lengths(values=((50, 1.0),)),
                Lengths(values=((OUTPUT_TOKENS, 1.0),)),
                seed=1,
                seconds=seconds,
            ),
            objective=OBJECTIVE,
        )
        # Everything is waited for: none is left unfinished.
        summary = await client.run()
        states = [await asyncio.to_thread(state, port) for port in ports]
    return summary, states


def state(port: int) -> dict[str, object]:
    """A replica's own account."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/emulator/state", timeout=10) as reply:
        found: dict[str, object] = json.loads(reply.read())
    return found


def main() -> None:
    """Run it and print what came out."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--seconds", type=float, default=60.0)
    seconds = line.parse_args().seconds
    with emulators(REPLICAS, replica(SLOTS, timing(PREFILL_MS, STEP_MS))) as ports:
        summary, states = uvloop.run(overload(ports, seconds))
    held = [int(str(one["max_held"])) for one in states]
    others = summary.rejected + summary.empty + summary.cut + summary.failed
    print(f"emulated, {OVERLOAD:g} x of {carried():.1f} req/s for {seconds:g} s")
    print(f"requests      {summary.offered} offered, {summary.ok} whole, {summary.refused} refused")
    print(
        f"otherwise     {others} (cut, empty, failed or rejected), {summary.unfinished} unfinished"
    )
    print(f"most held     {held} of a ceiling of {SLOTS}, by each replica's own count")
    ratio = summary.ok / (carried() * seconds)
    print(f"carried       {ratio:.2f} of what the slots carry")
    if summary.void:
        print(f"void: {'; '.join(summary.void)}")
    good = max(held) <= SLOTS and others == 0 and summary.unfinished == 0
    print("met" if good else "missed: a ceiling was passed or a request ended otherwise")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
