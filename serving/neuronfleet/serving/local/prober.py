"""Rounds of canaries through the gateway, so that no probe takes a replica over its ceiling."""

import asyncio
import itertools
from contextlib import suppress

import aiohttp

from neuronfleet.serving.local import canary
from neuronfleet.serving.local.canary import BROKEN, Health
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.fleet import RunningFleet
from neuronfleet.serving.local.replica import Replica
from neuronfleet.serving.planner.observation import Phase

_TIMEOUT_S = 5.0
"""Real seconds that a canary may take before it counts as silent."""
_BUSY_LIMIT = 3
"""Inconclusive canaries in a row, without a token between them, that condemn a replica."""


class Prober:
    """Asks every serving replica in turn."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: FleetClock,
        session: aiohttp.ClientSession,
        canary_port: int,
    ) -> None:
        self._engine, self._clock, self._session = engine, clock, session
        self._base = f"http://127.0.0.1:{canary_port}"
        self._numbers = itertools.count(1)

    async def round(self, fleet: RunningFleet) -> None:
        """One canary to each serving replica of a fleet, all at once."""
        if self._rests(fleet):
            return
        serving = [one for one in fleet.roster.replicas.values() if one.phase is Phase.SERVING]
        await asyncio.gather(*(self._probe(fleet, replica) for replica in serving))

    def _rests(self, fleet: RunningFleet) -> bool:
        """Whether probing would itself keep an idle fleet from going to zero."""
        return (
            fleet.spec.bounds.min_replicas == 0
            and fleet.decision is not None
            and not (fleet.decision.inputs.load)
        )

    async def _probe(self, fleet: RunningFleet, replica: Replica) -> None:
        found = await self._ask(fleet, replica)
        if found in BROKEN:
            # Once more: a replica is not condemned on one lost packet.
            found = await self._ask(fleet, replica)
        await self._read_lateness(fleet, replica)
        if replica.phase is not Phase.SERVING:
            return
        if found in BROKEN:
            await fleet.roster.condemn(replica.name, f"canary: {found}")
        elif found is Health.BUSY:
            await self._judge_busy(fleet, replica)
        else:
            replica.busy_canaries = 0

    async def _ask(self, fleet: RunningFleet, replica: Replica) -> Health:
        return await canary.ask(
            self._session,
            self._base,
            self._engine.probe(fleet.spec, next(self._numbers)),
            timeout_s=max(_TIMEOUT_S, fleet.spec.queue_s / self._clock.scale + _TIMEOUT_S),
            headers={
                "x-neuronfleet-fleet": fleet.spec.name,
                "x-neuronfleet-replica": replica.name,
            },
        )

    async def _judge_busy(self, fleet: RunningFleet, replica: Replica) -> None:
        """A full replica that makes tokens is well; one that makes none hangs."""
        tokens = await self._generated(replica)
        moved = tokens is not None and tokens != replica.tokens_seen
        replica.busy_canaries = 0 if moved else replica.busy_canaries + 1
        replica.tokens_seen = tokens
        if replica.busy_canaries >= _BUSY_LIMIT:
            await fleet.roster.condemn(replica.name, "canary: full, and no token between canaries")

    async def _generated(self, replica: Replica) -> float | None:
        """Tokens that it has made, by its own metrics; None where it does not say."""
        text = ""
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            quick = aiohttp.ClientTimeout(total=2)
            async with self._session.get(f"{replica.url}/metrics", timeout=quick) as answer:
                text = await answer.text()
        for line in text.splitlines():
            if line.startswith("vllm:generation_tokens_total"):
                return float(line.rsplit(" ", 1)[1])
        return None

    async def read_lateness(self, fleet: RunningFleet) -> None:
        """Each emulated replica's own account of whether its steps start in time."""
        replicas = list(fleet.roster.replicas.values())
        await asyncio.gather(*(self._read_lateness(fleet, one) for one in replicas))

    async def _read_lateness(self, fleet: RunningFleet, replica: Replica) -> None:
        if replica.state_port is None:
            return
        url = f"http://127.0.0.1:{replica.state_port}/emulator/state"
        with suppress(aiohttp.ClientError, TimeoutError, OSError, KeyError, TypeError):
            quick = aiohttp.ClientTimeout(total=2)
            async with self._session.get(url, timeout=quick) as answer:
                state = await answer.json()
            if state["void"]:
                # Kept with the fleet: the replica may leave before the run ends.
                fleet.voids[replica.name] = f"{replica.name}: {state['void_reason']}"
