"""From a decided size to acts: what to start, what to cancel, what to drain."""

from collections.abc import Mapping
from dataclasses import dataclass

from neuronfleet.serving.planner.observation import Observation, Phase, ReplicaSeen
from neuronfleet.serving.planner.staffing import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Acts that bring a fleet to its decided size."""

    start: Counts
    """Replicas to start, by variant."""
    cancel: tuple[str, ...]
    """Booting replicas to stop: nothing is lost but their boot."""
    drain: tuple[str, ...]
    """Serving replicas that take no more requests and leave when their streams end."""

    def __bool__(self) -> bool:
        return bool(self.start or self.cancel or self.drain)


def moves(desired: Counts, seen: Observation, in_flight: Mapping[str, float]) -> Moves:
    """Acts from what is seen to what is desired.

    Booting replicas go before serving ones, the youngest first; of the serving ones those that
    hold least, so that they are gone soonest.
    """
    start: Counts = {}
    cancel: list[str] = []
    drain: list[str] = []
    for variant, wanted in desired.items():
        mine = [replica for replica in seen.replicas if replica.variant == variant]
        booting = [replica for replica in mine if replica.phase is Phase.BOOTING]
        serving = [replica for replica in mine if replica.phase is Phase.SERVING]
        surplus = len(booting) + len(serving) - wanted
        if surplus < 0:
            start[variant] = -surplus
            continue
        youngest = sorted(booting, key=lambda r: (-r.since_s, r.name))[:surplus]
        emptiest = sorted(serving, key=lambda r: _drain_order(r, in_flight))
        cancel += [replica.name for replica in youngest]
        drain += [replica.name for replica in emptiest[: surplus - len(youngest)]]
    return Moves(start=start, cancel=tuple(cancel), drain=tuple(drain))


def _drain_order(replica: ReplicaSeen, in_flight: Mapping[str, float]) -> tuple[float, float, str]:
    """Emptiest first; one whose load is unknown counts as full."""
    return in_flight.get(replica.name, float("inf")), -replica.since_s, replica.name
