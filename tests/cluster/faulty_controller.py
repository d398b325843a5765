"""The controller with a fault: `python -m tests.cluster.faulty_controller --settings FILE
--die-after STEP` ends at once after that step of its first reconcile that acts."""

import argparse
import asyncio
import os
from pathlib import Path

from neuronfleet.serving.controller.__main__ import connected
from neuronfleet.serving.controller.process import Operator
from neuronfleet.serving.controller.settings import load

DIED = 9
"""Exit status of the fault."""


async def main() -> None:
    """Run until killed, by others or by itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--die-after", default="")
    told = parser.parse_args()

    async def fault(key: str, step: str) -> None:
        if step == told.die_after:
            # As kill -9 does it: nothing is flushed, closed or released.
            os._exit(DIED)

    operator = Operator(
        load(told.settings), await connected(), identity=f"faulty-{os.getpid()}", after_step=fault
    )
    await operator.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main())
