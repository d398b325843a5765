"""Faults that a run puts on its own replicas, to show that they heal."""

import signal
from contextlib import suppress

import aiohttp

from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.fleet import Event, RunningFleet
from neuronfleet.serving.local.replica import Replica
from neuronfleet.serving.local.scenario import FaultMode, ScheduledFault
from neuronfleet.serving.planner.observation import Phase


async def break_one(
    fault: ScheduledFault,
    fleet: RunningFleet,
    *,
    clock: FleetClock,
    session: aiohttp.ClientSession,
) -> Replica | None:
    """Put a fault on the oldest serving replica; None where there is none to break."""
    serving = [one for one in fleet.roster.replicas.values() if one.phase is Phase.SERVING]
    if not serving:
        return None
    victim = min(serving, key=lambda one: one.since_s)
    text = f"{victim.name} is broken on purpose"
    fleet.events.append(Event(at_s=clock.now(), kind="fault", text=text, reason=str(fault.mode)))
    if fault.mode is FaultMode.KILL:
        if victim.child is not None:
            victim.child.signal(signal.SIGKILL)
        return victim
    with suppress(aiohttp.ClientError, OSError, TimeoutError):
        # A crashing replica may be gone before it answers.
        await session.post(
            f"{victim.url}/emulator/faults",
            json={"mode": str(fault.mode), "on": True},
            timeout=aiohttp.ClientTimeout(total=2),
        )
    return victim
