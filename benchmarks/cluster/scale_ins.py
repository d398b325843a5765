"""100 scale-ins under load on the real node: how many streams break, and how long each takes."""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.cluster import open_cluster
from tests.cluster.image_build import build_all
from tests.cluster.prometheus import Prometheus
from tests.cluster.stack import Stack
from tests.cluster.streams import Streams, Tally

NAME = "ins"


async def scale_ins(stack: Stack, count: int) -> tuple[Tally, list[float]]:
    """Grow to two replicas and back, again and again; the seconds that each scale-in took."""
    took = []
    async with Streams(stack.url, f"model-{NAME}", workers=4) as streams:
        for number in range(count):
            await _to(stack, 2)
            begun = time.monotonic()
            await _to(stack, 1)
            took.append(time.monotonic() - begun)
            print(f"# {number + 1} of {count}: {took[-1]:.1f} s", file=sys.stderr, flush=True)
        return await streams.finish(), took


async def _to(stack: Stack, count: int) -> None:
    arguments = ("scale", f"sf/{NAME}", "-n", stack.models, f"--replicas={count}")
    await asyncio.to_thread(stack.cluster.kubectl, *arguments)
    await asyncio.to_thread(stack.await_serving, NAME, count)


def main() -> None:
    """Exit status 1 where a stream broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    count = parser.parse_args().count
    cluster = open_cluster()
    images = build_all()
    for one in images.values():
        if one.reference not in cluster.images():
            cluster.import_image(one.archive)
    with tempfile.TemporaryDirectory() as directory:
        prometheus = Prometheus(cluster, Path(directory))
        prometheus.start()
        stack = Stack(
            cluster=cluster, prometheus=prometheus, images=images, directory=Path(directory)
        )
        try:
            stack.install()
            stack.apply(stack.fleet(NAME, scaling=None, replicas=1))
            stack.await_serving(NAME, 1)
            tally, took = asyncio.run(scale_ins(stack, count))
        finally:
            stack.remove()
            prometheus.stop()
    print(
        f"{count} scale-ins: {tally.whole} streams whole, {len(tally.broken)} broken,"
        f" {sum(tally.refused.values())} refused; a scale-in took {statistics.median(took):.1f} s"
        f" in the median, {max(took):.1f} s at most (emulated replicas)"
    )
    if not tally.clean:
        sys.exit(f"missed: {tally.broken[:3]} {dict(tally.refused)}")


if __name__ == "__main__":
    main()
