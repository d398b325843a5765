"""What the gateway adds to the time to first token, in pairs: the same request with and without it.

One emulated replica, idle but for the pair. Each pair asks directly and through HAProxy, in turn
first and second, over connections that are kept.

    python benchmarks/added_ttft.py [--pairs 400]
"""

import argparse
import asyncio
import json
import sys
import time

import aiohttp
import uvloop
from parts import MODEL, emulators, gateway, replica, timing

from neuronfleet.serving.replica.replay import quantile

BAR_MS = 1.0
BODY = json.dumps({"model": MODEL, "prompt": "a b c", "max_tokens": 2, "stream": True})


async def ttft_ms(session: aiohttp.ClientSession, base: str) -> float:
    """Milliseconds from sending to the first event of the stream."""
    began = time.perf_counter()
    headers = {"content-type": "application/json"}
    async with session.post(f"{base}/completions", data=BODY, headers=headers) as answer:
        await answer.content.readany()
        taken = time.perf_counter() - began
        await answer.read()
    return taken * 1000


async def pairs(port: int, count: int) -> tuple[list[float], list[float]]:
    """Times without and with the gateway, pair by pair."""
    direct = f"http://127.0.0.1:{port}/v1"
    lone: list[float] = []
    added: list[float] = []
    async with gateway([port], 8, queue_s=5.0) as through, aiohttp.ClientSession() as session:
        for number in range(count + 20):
            order = (direct, through) if number % 2 else (through, direct)
            seen = {base: await ttft_ms(session, base) for base in order}
            await asyncio.sleep(0.002)
            if number >= 20:
                lone.append(seen[direct])
                added.append(seen[through] - seen[direct])
    return lone, added


def main() -> None:
    """Run it and print what came out."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--pairs", type=int, default=400)
    count = line.parse_args().pairs
    with emulators(1, replica(8, timing(0.0, 1.0))) as ports:
        lone, added = uvloop.run(pairs(ports[0], count))
    median = quantile(added, 0.5) or 0.0
    print(f"direct TTFT   p50 {quantile(lone, 0.5):.2f} ms over {count} pairs (emulated replica)")
    print(f"added         p50 {median:.2f} ms   p99 {quantile(added, 0.99):.2f} ms")
    print("met" if median <= BAR_MS else f"missed: must be in [0, {BAR_MS}] ms")
    sys.exit(0 if median <= BAR_MS else 1)


if __name__ == "__main__":
    main()
