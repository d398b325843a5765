"""Run replicas in this process until a signal ends them."""

import asyncio
import os
import signal
from collections.abc import Sequence

from neuronfleet.serving.emulator.server import Log, Replica, print_line
from neuronfleet.serving.emulator.settings import (
    BootSettings,
    ReplicaSettings,
    from_json,
    from_mapping,
    to_json,
)

__all__ = [
    "BootSettings",
    "Replica",
    "ReplicaSettings",
    "from_json",
    "from_mapping",
    "run",
    "to_json",
]


async def run(settings: Sequence[ReplicaSettings], *, log: Log = print_line) -> None:
    """Serve all replicas; SIGTERM or SIGINT drains them, a second one exits at once.

    A replica that is alone in its process crashes by exiting; one among several resets its
    connections and closes its port.
    """
    alone = len(settings) == 1
    replicas = [Replica(one, log=log, exit_on_crash=alone) for one in settings]
    told = asyncio.Event()

    def tell() -> None:
        if told.is_set():
            os._exit(1)
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    for replica in replicas:
        await replica.start()
    await told.wait()
    await asyncio.gather(*(replica.drain() for replica in replicas))
