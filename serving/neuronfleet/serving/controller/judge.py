"""From what is seen to what should be: the pure middle of a reconcile."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from neuronfleet.serving.api.fleet import Mode
from neuronfleet.serving.api.status import RolloutStatus
from neuronfleet.serving.controller.census import Census, Seat, census, observation
from neuronfleet.serving.controller.reservations import closing
from neuronfleet.serving.controller.rollout import Split, split
from neuronfleet.serving.controller.view import View
from neuronfleet.serving.planner.decide import Decision, StaffingSpec, decide
from neuronfleet.serving.planner.observation import Observation, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One reconcile's conclusions."""

    view: View
    now: float
    people: Census
    seen: Observation
    decision: Decision
    splits: tuple[Split, ...]
    """Replicas by revision, one for each Deployment that should be."""
    rollout: RolloutStatus | None
    limited: Mapping[str, str]
    """Variants that cannot grow, and why."""

    @property
    def acts(self) -> bool:
        """Whether decisions are carried out."""
        return self.view.fleet.mode is Mode.ACTIVE

    @property
    def leaving(self) -> list[Seat]:
        """Seats with pods to delete."""
        return [seat for seat in self.people.seats if seat.leaving and seat.pod is not None]


def judge(view: View, now: float) -> Judged:
    """Decide for one fleet at `now`, Unix seconds."""
    people = census(view, now)
    limited = limits(view, people, now)
    seen = observation(view, people)
    decision = decide(staffing(view, people, limited), seen, now)
    splits, rollout = split(view, people, decision, now)
    return Judged(
        view=view,
        now=now,
        people=people,
        seen=seen,
        decision=decision,
        splits=splits,
        rollout=rollout,
        limited=limited,
    )


def limits(view: View, people: Census, now: float) -> dict[str, str]:
    """Why variants cannot grow: no node takes them, or their reservation ends."""
    found: dict[str, str] = {}
    for variant in view.fleet.variants:
        unplaced = [s.unplaced for s in people.of(variant.name, Phase.FAILED) if s.unplaced]
        if variant.name in view.blocked:
            found[variant.name] = view.blocked[variant.name]
        elif closing(view, variant.name, now) and variant.reservation is not None:
            found[variant.name] = f"reservation {variant.reservation.id} is about to end"
        elif unplaced:
            found[variant.name] = unplaced[0]
        elif now < view.without_capacity.get(variant.name, 0.0):
            found[variant.name] = "no capacity when it was last tried"
    return found


def staffing(view: View, people: Census, limited: Mapping[str, str]) -> StaffingSpec:
    """The fleet's staffing with boots as learned and capacity as found."""
    variants = tuple(
        replace(
            variant,
            boot_p90_s=view.boots[variant.name].p90_s,
            most=_placed(people, variant.name) if variant.name in limited else variant.most,
        )
        for variant in view.staffing.variants
    )
    return replace(view.staffing, variants=variants)


def _placed(people: Census, variant: str) -> int:
    """Replicas that capacity was found for."""
    seats = people.of(variant, Phase.BOOTING, Phase.SERVING)
    return sum(seat.pod is not None and seat.pod.scheduled for seat in seats)
