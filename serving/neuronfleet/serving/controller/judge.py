"""From what is seen to what should be: the pure middle of a reconcile."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from neuronfleet.serving.api.fleet import MOST_REPLICAS, Mode, Scaling
from neuronfleet.serving.api.status import RolloutStatus
from neuronfleet.serving.controller.census import Census, Seat, census, observation
from neuronfleet.serving.controller.reservations import closing
from neuronfleet.serving.controller.rollout import Split, split
from neuronfleet.serving.controller.view import View
from neuronfleet.serving.planner.decide import Decision, StaffingSpec, decide
from neuronfleet.serving.planner.observation import Observation, Phase
from neuronfleet.serving.planner.staffing import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One reconcile's conclusions."""

    view: View
    now: float
    people: Census
    seen: Observation
    decision: Decision
    """What is published; carried out too, unless the fleet is Advisory."""
    carried: Counts
    """Replicas by variant that the Deployments are to add up to."""
    splits: tuple[Split, ...]
    """Replicas by revision, one for each Deployment that should be."""
    rollout: RolloutStatus | None
    limited: Mapping[str, str]
    """Variants that cannot grow, and why."""

    @property
    def acts(self) -> bool:
        """Whether counts are carried out."""
        return self.view.acts

    @property
    def leaving(self) -> list[Seat]:
        """Seats with pods to delete."""
        return [seat for seat in self.people.seats if seat.leaving and seat.pod is not None]


def judge(view: View, now: float) -> Judged:
    """Decide for one fleet at `now`, Unix seconds."""
    people = census(view, now)
    limited = limits(view, people, now)
    seen = observation(view, people)
    spec = staffing(view, people, limited)
    carried = _carried(view, decide(spec, seen, now))
    splits, rollout = split(view, people, carried, now)
    return Judged(
        view=view,
        now=now,
        people=people,
        seen=seen,
        decision=decide(_unbound(view, spec), seen, now),
        carried=carried,
        splits=splits,
        rollout=rollout,
        limited=limited,
    )


def _carried(view: View, decision: Decision) -> Counts:
    """The counts decided, or those found where somebody else sets them."""
    if view.acts:
        return decision.desired
    found = {
        variant: [d.replicas for d in view.deployments if d.variant == variant]
        for variant in decision.desired
    }
    if any(found.values()):
        return {variant: sum(counts) for variant, counts in found.items()}
    # A fleet that is not there yet starts at its minimum, from where another one may scale it.
    first = view.fleet.variants[0].name
    least = min(decision.desired[first], view.fleet.bounds.min_replicas)
    return {**dict.fromkeys(found, 0), first: least}


def _unbound(view: View, spec: StaffingSpec) -> StaffingSpec:
    """An Advisory fleet's fixed count does not bound what is published: it may be set from it."""
    if view.fleet.mode is Mode.ACTIVE or view.fleet.replicas is None:
        return spec
    return replace(spec, bounds=Scaling(min_replicas=1, max_replicas=MOST_REPLICAS))


def limits(view: View, people: Census, now: float) -> dict[str, str]:
    """Why variants cannot grow: no node takes them, or their reservation ends."""
    found: dict[str, str] = {}
    for variant in view.fleet.variants:
        seats = [s for s in people.seats if s.seen.variant == variant.name]
        unplaced = [seat.unplaced for seat in seats if seat.unplaced]
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
