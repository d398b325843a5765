"""`python -m neuronfleet.serving.controller.gateway --settings FILE`: a gateway pod's process."""

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.client import ApiClient

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.gateway.agent import Agent
from neuronfleet.serving.controller.gateway.kube_feed import KubeFeed
from neuronfleet.serving.controller.gateway.leading import Leading
from neuronfleet.serving.controller.gateway.settings import AgentSettings, load
from neuronfleet.serving.controller.lease import Lease
from neuronfleet.serving.gateway.errors import GatewayError


async def run(settings: AgentSettings, client: ApiClient) -> None:
    """Run until SIGTERM or SIGINT, and then until the last stream."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    feed = KubeFeed(client, settings, random.Random())
    lease = Lease(
        client,
        namespace=settings.namespace,
        name=settings.lease,
        identity=settings.pod,
        times=settings.lease_times,
    )
    leading = Leading(lease, feed)
    agent = asyncio.create_task(Agent(settings, feed, leading).run(stop))
    watching = asyncio.create_task(feed.run())
    try:
        # The latter two end only by a fault, and then nobody would follow the cluster.
        await asyncio.wait({agent, watching, leading.task}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            await asyncio.wait({agent})
    finally:
        for task in (agent, watching, leading.task):
            task.cancel()
        await asyncio.wait({agent, watching, leading.task})
    for task in (agent, watching, leading.task):
        if not task.cancelled():
            task.result()


async def _main(settings: AgentSettings) -> None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config()  # type: ignore[no-untyped-call]
    async with ApiClient() as client:
        await run(settings, client)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="neuronfleet-gateway")
    parser.add_argument("--settings", type=Path, required=True, help="YAML file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(_main(load(arguments.settings, os.environ)))
    except (SpecError, GatewayError) as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
