"""The control loop of the run: observe, decide, allocate, act. It holds no policy of its own."""

from collections.abc import Sequence
from dataclasses import replace

from neuronfleet.serving.api.fleet import Budget, Mode
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.runtime import GatewayRuntime
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.fleet import Event, RunningFleet
from neuronfleet.serving.local.observe import Observer
from neuronfleet.serving.local.staff import with_boots
from neuronfleet.serving.planner.allocate import Claim, allocate
from neuronfleet.serving.planner.decide import Decision, decide
from neuronfleet.serving.planner.moves import moves
from neuronfleet.serving.planner.observation import Observation, Phase

TICK_S = 1.0
"""Real seconds between decisions."""
_LEAST_WAIT_S = 1.0


class ControlLoop:
    """Decides for all fleets together, since a budget binds them."""

    def __init__(
        self,
        fleets: Sequence[RunningFleet],
        *,
        observer: Observer,
        gateway: GatewayRuntime,
        clock: FleetClock,
        budget: Budget | None,
    ) -> None:
        self._fleets = _by_priority(fleets, budget)
        self._observer, self._gateway, self._clock = observer, gateway, clock
        self._budget = budget

    async def tick(self) -> None:
        """One turn."""
        await self._observer.look([fleet.spec.name for fleet in self._fleets])
        now = self._clock.now()
        seen = [self._observation(fleet) for fleet in self._fleets]
        decisions = [
            decide(with_boots(fleet.staffing, fleet.roster), observation, now)
            for fleet, observation in zip(self._fleets, seen, strict=True)
        ]
        if self._budget is not None:
            decisions = allocate(
                [self._claim(*pair) for pair in zip(self._fleets, decisions, strict=True)],
                self._budget.usd_per_hour,
            )
        for fleet, decision, observation in zip(self._fleets, decisions, seen, strict=True):
            await self._act(fleet, decision, observation)
            await self._tell_wait(fleet)

    def _observation(self, fleet: RunningFleet) -> Observation:
        samples = tuple(self._observer.samples[fleet.spec.name])
        return replace(fleet.roster.observe(), samples=samples)

    def _claim(self, fleet: RunningFleet, decision: Decision) -> Claim:
        serving = dict.fromkeys(decision.desired, 0)
        booting = dict(serving)
        leaving = []
        for replica in fleet.roster.replicas.values():
            name = replica.variant.name
            if replica.phase is Phase.SERVING:
                serving[name] += 1
            elif replica.phase is Phase.BOOTING:
                booting[name] += 1
            else:
                leaving.append(name)
        return Claim(
            decision=decision,
            serving=serving,
            booting=booting,
            usd_per_hour=fleet.prices,
            leaving_usd_per_hour=sum(fleet.prices.get(name) or 0.0 for name in leaving),
        )

    async def _act(self, fleet: RunningFleet, decision: Decision, observation: Observation) -> None:
        """Carry a decision out, and note it where it changes something."""
        before, fleet.decision = fleet.decision, decision
        stats = self._observer.stats.get(fleet.spec.name)
        in_flight = {one.name: float(one.in_flight) for one in stats.replicas} if stats else {}
        acts = moves(decision.desired, observation, in_flight)
        if acts.start and not fleet.roster.may_start():
            acts = replace(acts, start={})
        # Advisory fleets note a decision once and carry out none.
        advisory = fleet.spec.mode is Mode.ADVISORY
        if advisory and before is not None and before.desired == decision.desired:
            return
        if not acts:
            return
        now = self._clock.now()
        load = decision.inputs.load
        text = f"{decision.inputs.current} -> {decision.total} replicas"
        reason = f"{decision.reason}, load {load:.1f}" if load is not None else decision.reason
        fleet.events.append(Event(at_s=now, kind="scale", text=text, reason=reason))
        if advisory:
            return
        variants = {variant.name: variant for variant in fleet.spec.variants}
        for name, count in acts.start.items():
            for _ in range(count):
                fleet.roster.start(variants[name])
        for name in acts.cancel:
            await fleet.roster.cancel(name)
        for name in acts.drain:
            fleet.roster.drain(name)

    async def _tell_wait(self, fleet: RunningFleet) -> None:
        """Keep Retry-After honest: the rest of a boot, or how long the queue takes to move."""
        stats = self._observer.stats.get(fleet.spec.name)
        if stats is None:
            return
        left = fleet.roster.boot_left_s()
        latest = self._observer.samples[fleet.spec.name]
        held = (latest[-1].seconds_per_request if latest else None) or _LEAST_WAIT_S
        if fleet.slots == 0:
            boot = max(boots.p90_s for boots in fleet.roster.boots.values())
            wait = boot if left is None else left
        else:
            # Slots free at slots / held a second; the queue ahead takes its share of that.
            wait = held * (stats.queued + 1) / fleet.slots
        try:
            await self._gateway.set_wait(fleet.spec.name, wait / self._clock.scale)
        except GatewayError:
            return


def _by_priority(fleets: Sequence[RunningFleet], budget: Budget | None) -> list[RunningFleet]:
    """Fleets that a budget names first, in its order."""
    if budget is None:
        return list(fleets)
    ranks = {name: rank for rank, name in enumerate(budget.fleets)}
    return sorted(fleets, key=lambda fleet: ranks.get(fleet.spec.name, len(ranks)))
