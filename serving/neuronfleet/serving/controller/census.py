"""Who is there: every replica of a fleet with its phase, as `decide` takes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from neuronfleet.serving.controller.records import DeploymentRecord, PodRecord
from neuronfleet.serving.controller.reservations import closing
from neuronfleet.serving.controller.view import View
from neuronfleet.serving.planner.observation import Observation, Phase, ReplicaSeen

_ON_THE_WAY = (Phase.BOOTING, Phase.SERVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One replica's place: a pod, or one that a Deployment has yet to make."""

    seen: ReplicaSeen
    revision: str
    pod: PodRecord | None
    leaving: str | None = None
    """Why its pod is to be deleted."""
    lost: bool = False
    """Its node does not answer: it counts for nothing, and nothing can be done to it."""
    beside: bool = False
    """It is replaced before it goes: its Deployment holds one more as long as it is there."""
    unplaced: str | None = None
    """Why no node takes it, after the patience for that has ended."""

    @property
    def phase(self) -> Phase:
        """Where it is in its life."""
        return self.seen.phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """All seats of a fleet."""

    seats: tuple[Seat, ...]

    def of(self, variant: str, *phases: Phase) -> list[Seat]:
        """Seats of a variant in these phases."""
        return [s for s in self.seats if s.seen.variant == variant and s.phase in phases]

    def count(self, *phases: Phase) -> int:
        """Seats in these phases, of all variants."""
        return sum(seat.phase in phases for seat in self.seats)


def census(view: View, now: float) -> Census:
    """The seats of a fleet at `now`, Unix seconds."""
    known = {one.name for one in view.fleet.variants}
    seats: list[Seat] = []
    for deployment in view.deployments:
        mine = [
            _seat(pod, view, now)
            for pod in view.pods
            if (pod.variant, pod.revision) == (deployment.variant, deployment.revision)
        ]
        seats += _as_many(mine, deployment, now)
    homes = {(one.variant, one.revision) for one in view.deployments}
    seats += [
        _with_phase(_seat(pod, view, now), Phase.DRAINING)
        for pod in view.pods
        if (pod.variant, pod.revision) not in homes
    ]
    for variant in known:
        seats = _one_for_one(seats, variant, view)
    return Census(seats=tuple(_closing(seat, view, now) for seat in seats))


def observation(view: View, people: Census) -> Observation:
    """What `decide` is shown."""
    return Observation(
        replicas=tuple(seat.seen for seat in people.seats),
        samples=view.samples,
        watched_since_s=view.watched_since_s,
        gone=view.gone,
    )


def _seat(pod: PodRecord, view: View, now: float) -> Seat:
    phase, since, leaving, unplaced = Phase.BOOTING, pod.created_s, None, None
    lost = beside = False
    node = view.nodes.get(pod.node or "")
    if pod.terminating:
        phase, since = Phase.DRAINING, now
    elif node is not None and (why := _bad_node(node.unhealthy, disrupted=node.disrupted)):
        phase, leaving = Phase.DRAINING, f"{why} on {node.name}"
    elif node is not None and not node.ready:
        # What its silence has taken is made anew elsewhere. It is not deleted, since it may well
        # go on serving.
        phase, lost, beside = Phase.FAILED, True, True
    elif node is not None and node.cordoned and pod.ready:
        # Whoever drains the node evicts it; the budget lets a fleet's only replica go when
        # another one serves.
        phase, beside = Phase.DRAINING, True
    elif pod.ready:
        phase, since = Phase.SERVING, pod.ready_changed_s
    elif pod.unschedulable and now - pod.created_s > view.patience.capacity_wait_s:
        phase, unplaced = Phase.FAILED, pod.unschedulable
    elif failure := _failure(pod, view, now):
        phase, leaving = Phase.FAILED, failure
    return Seat(
        seen=ReplicaSeen(name=pod.name, variant=pod.variant, phase=phase, since_s=since),
        revision=pod.revision,
        pod=pod,
        leaving=leaving,
        lost=lost,
        beside=beside,
        unplaced=unplaced,
    )


def _bad_node(unhealthy: str | None, *, disrupted: bool) -> str | None:
    if unhealthy:
        return f"NeuronHealth {unhealthy}"
    return "disruption notice" if disrupted else None


def _failure(pod: PodRecord, view: View, now: float) -> str | None:
    """Why a pod that does not serve never will; None while there is hope."""
    if pod.started and now - pod.ready_changed_s > view.patience.unready_s:
        return f"canary fails for {now - pod.ready_changed_s:.0f} s"
    if not pod.started and pod.restarts >= view.patience.restarts:
        return f"died {pod.restarts} times before it served"
    return None


def _as_many(seats: list[Seat], deployment: DeploymentRecord, now: float) -> list[Seat]:
    """As many as the Deployment is to have, so that no decision is made twice.

    What it has yet to make counts as booting, what it has yet to delete as draining.
    """
    live = [seat for seat in seats if seat.pod is not None and not seat.pod.terminating]
    missing = deployment.replicas - len(live)
    if missing >= 0:
        return seats + [_unborn(deployment, number, now) for number in range(missing)]
    surplus = {seat.seen.name for seat in _least_first(live)[:-missing]}
    return [
        _with_phase(seat, Phase.DRAINING) if seat.seen.name in surplus else seat for seat in seats
    ]


def _unborn(deployment: DeploymentRecord, number: int, now: float) -> Seat:
    name = f"{deployment.name}-unborn-{number}"
    seen = ReplicaSeen(name=name, variant=deployment.variant, phase=Phase.BOOTING, since_s=now)
    return Seat(seen=seen, revision=deployment.revision, pod=None)


def _least_first(seats: Iterable[Seat]) -> list[Seat]:
    return sorted(seats, key=lambda s: (s.phase is Phase.SERVING, -s.seen.since_s, s.seen.name))


def _one_for_one(seats: list[Seat], variant: str, view: View) -> list[Seat]:
    """While a rollout runs, old and new together count as what the fleet was decided to have."""
    current = view.revisions[variant]
    counted = [s for s in seats if s.seen.variant == variant and s.phase in _ON_THE_WAY]
    revisions = {d.revision for d in view.deployments if d.variant == variant and d.replicas}
    if len(revisions) < 2:
        return seats
    wanted = base_count(view, variant)
    surplus = len(counted) - wanted
    if surplus <= 0:
        return seats
    # New ones that boot are not there yet; old ones beyond the count are being replaced.
    order = sorted(
        counted,
        key=lambda s: (
            s.phase is Phase.SERVING,
            s.revision == current if s.phase is Phase.SERVING else s.revision != current,
            s.seen.name,
        ),
    )
    extra = {seat.seen.name for seat in order[:surplus]}
    return [_with_phase(s, Phase.DRAINING) if s.seen.name in extra else s for s in seats]


def base_count(view: View, variant: str) -> int:
    """Replicas that a variant was decided to have, or that its oldest revisions hold."""
    if view.status.last_decision is not None:
        decided = view.status.last_decision.desired.get(variant)
        if decided is not None:
            return decided
    current = view.revisions[variant]
    mine = [d for d in view.deployments if d.variant == variant]
    return sum(d.replicas for d in mine if d.revision != current)


def _closing(seat: Seat, view: View, now: float) -> Seat:
    """Replicas in a reservation that is about to end count as leaving."""
    if seat.phase in _ON_THE_WAY and closing(view, seat.seen.variant, now):
        return _with_phase(seat, Phase.DRAINING)
    return seat


def _with_phase(seat: Seat, phase: Phase) -> Seat:
    return replace(seat, seen=replace(seat.seen, phase=phase))


def counts(seats: Iterable[Seat]) -> Mapping[str, int]:
    """Seats by variant."""
    found: dict[str, int] = {}
    for seat in seats:
        found[seat.seen.variant] = found.get(seat.seen.variant, 0) + 1
    return found
