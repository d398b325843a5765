"""`python -m neuronfleet.serving.controller --settings FILE`: the operator's process."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.client import ApiClient

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.process import Operator
from neuronfleet.serving.controller.settings import ControllerSettings, load


async def connected() -> ApiClient:
    """A client with the pod's service account, or the user's KUBECONFIG outside a cluster."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config()  # type: ignore[no-untyped-call]
    return ApiClient()


async def run(settings: ControllerSettings) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = await connected()
    try:
        identity = os.environ.get("POD_NAME") or socket.gethostname()
        await Operator(settings, client, identity=identity).run(stop)
    finally:
        await client.close()  # type: ignore[no-untyped-call]


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="neuronfleet-controller")
    parser.add_argument("--settings", type=Path, required=True, help="YAML file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # kopf tells of every event of every object.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        settings = load(arguments.settings)
    except SpecError as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
