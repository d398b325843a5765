"""What a run does while it lasts, each as a job of its own: decide, scrape, probe, break, send."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import aiohttp

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.local.breaker import break_one
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.errors import LocalError
from neuronfleet.serving.local.fleet import RunningFleet
from neuronfleet.serving.local.loop import TICK_S, ControlLoop
from neuronfleet.serving.local.prober import Prober
from neuronfleet.serving.local.prometheus import Prometheus, Target
from neuronfleet.serving.local.scenario import Load, ScheduledFault
from neuronfleet.serving.local.setup import Setup
from neuronfleet.serving.local.snapshot import Recorder
from neuronfleet.serving.local.traffic import Assignment
from neuronfleet.serving.planner.observation import Phase

Job = Coroutine[Any, Any, None]


class Jobs:
    """All jobs of a run; each goes on until it is cancelled, or ends with the error of its part."""

    def __init__(
        self,
        setup: Setup,
        fleets: Sequence[RunningFleet],
        *,
        clock: FleetClock,
        session: aiohttp.ClientSession,
        gateway: GatewayProcess,
        prometheus: Prometheus,
        loop: ControlLoop,
        recorder: Recorder,
        prober: Prober,
        endpoint: str,
        key: str,
    ) -> None:
        self._setup, self._fleets = setup, fleets
        self._endpoint, self._key = endpoint, key
        self._clock, self._session = clock, session
        self._gateway, self._prometheus = gateway, prometheus
        self._loop, self._recorder, self._prober = loop, recorder, prober
        self._keys_seen: int | None = None

    def all(self) -> list[Job]:
        """One coroutine a job, none of them started."""
        run = self._setup.run
        return [
            self._every(TICK_S, self._tick),
            self._every(1.0, self._scrape_replicas),
            self._every(1.0, self._follow_keys),
            *(self._probe(fleet) for fleet in self._fleets),
            *(self._break(fault) for fault in run.faults),
            *(self._traffic(self._named(load.fleet), load) for load in run.loads),
        ]

    async def read_lateness(self) -> None:
        """Ask every emulated replica once more whether it kept up."""
        await asyncio.gather(*(self._prober.read_lateness(fleet) for fleet in self._fleets))

    def _named(self, name: str) -> RunningFleet:
        return next(fleet for fleet in self._fleets if fleet.spec.name == name)

    async def _every(self, seconds: float, job: Callable[[], Job]) -> None:
        while True:
            await job()
            await asyncio.sleep(seconds)

    async def _tick(self) -> None:
        if self._gateway.pid is None:
            raise LocalError("the gateway ended: see whether something killed haproxy")
        await self._loop.tick()
        self._recorder.tick()

    async def _scrape_replicas(self) -> None:
        """Keep Prometheus' list of replicas what it should be."""
        if not any(fleet.roster.changed.is_set() for fleet in self._fleets):
            return
        targets = []
        for fleet in self._fleets:
            fleet.roster.changed.clear()
            targets += [
                Target(
                    port=one.port,
                    fleet=fleet.spec.name,
                    variant=one.variant.name,
                    replica=one.name,
                )
                for one in fleet.roster.replicas.values()
                if one.phase in (Phase.SERVING, Phase.DRAINING)
            ]
        self._prometheus.set_targets(targets)

    async def _follow_keys(self) -> None:
        """Take up changes of the keys' file; one with problems changes nothing, and is said."""
        keys = self._setup.keys_file
        if keys is None:
            return
        try:
            changed = keys.stat().st_mtime_ns
            if changed == self._keys_seen:
                return
            self._keys_seen = changed
            await self._gateway.reload_keys()
        except (OSError, GatewayError, SpecError) as wrong:
            self._setup.say(f"API keys stay as they were: {wrong}")

    async def _probe(self, fleet: RunningFleet) -> None:
        while True:
            await self._clock.sleep(self._setup.run.canary_every_s)
            await self._prober.round(fleet)

    async def _break(self, fault: ScheduledFault) -> None:
        await self._clock.sleep(max(0.0, fault.at_s - self._clock.now()))
        await break_one(fault, self._named(fault.fleet), clock=self._clock, session=self._session)

    async def _traffic(self, fleet: RunningFleet, load: Load) -> None:
        # No replica yet: what comes now is refused with what is left of the boot. A newcomer's
        # first minute would be refusals alone, so the generator waits for the first replica,
        # unless none is to come before the first request, or none may for want of budget.
        while fleet.slots == 0 and fleet.expected:  # noqa: ASYNC110 - a fact, no event
            await asyncio.sleep(0.1)
        duration = self._setup.run.duration_s
        fleet.client = self._setup.client(
            Assignment(
                endpoint=self._endpoint,
                key=self._key,
                fleet=fleet.spec,
                load=load,
                run=self._setup.run,
                until_s=None if duration is None else duration - self._clock.now(),
            )
        )
        await fleet.client.run()
