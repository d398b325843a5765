"""Who is there: every replica of a fleet with its phase, as `decide` takes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from neuronfleet.serving.controller.records import DeploymentRecord, NodeRecord, PodRecord
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
    failing: str | None = None
    """Why it will not serve, while the kubelet still tries."""
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
        seats += _as_many(mine, deployment, view, now)
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
    )


def _seat(pod: PodRecord, view: View, now: float) -> Seat:
    phase, since = Phase.BOOTING, pod.created_s
    leaving = unplaced = failing = None
    lost = beside = False
    node = view.nodes.get(pod.node or "")
    if pod.terminating:
        phase, since = Phase.DRAINING, now
    elif node is not None and (why := _bad_node(node.unhealthy, disrupted=node.disrupted)):
        phase, leaving = Phase.DRAINING, f"{why} on {node.name}"
    elif node is not None and _is_lost(node, view, now):
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
        # Where another variant may take its part, it is given up; else it goes on waiting.
        unplaced = pod.unschedulable
        phase = Phase.FAILED if _has_alternative(view, pod.variant, now) else Phase.BOOTING
    elif unwell := _unwell(pod, view, now):
        phase, leaving = Phase.FAILED, unwell
    elif not pod.started and pod.restarts >= view.patience.restarts:
        # Not deleted: the kubelet's own pauses between starts would begin anew.
        phase, failing = Phase.FAILED, f"died {pod.restarts} times before it served"
    return Seat(
        seen=ReplicaSeen(name=pod.name, variant=pod.variant, phase=phase, since_s=since),
        revision=pod.revision,
        pod=pod,
        leaving=leaving,
        lost=lost,
        beside=beside,
        unplaced=unplaced,
        failing=failing,
    )


def _has_alternative(view: View, variant: str, now: float) -> bool:
    """Whether another variant may grow in its place."""
    waiting = {
        pod.variant
        for pod in view.pods
        if pod.unschedulable and now - pod.created_s > view.patience.capacity_wait_s
    }
    return any(
        other.name != variant
        and other.name not in view.blocked
        and other.name not in waiting
        and now >= view.without_capacity.get(other.name, 0.0)
        and not closing(view, other.name, now)
        for other in view.fleet.variants
    )


def _is_lost(node: NodeRecord, view: View, now: float) -> bool:
    """Whether a node has been silent for long: for a moment all are, after an API server was."""
    return not node.ready and now - node.ready_changed_s > view.patience.unready_s


def _bad_node(unhealthy: str | None, *, disrupted: bool) -> str | None:
    if unhealthy:
        return f"NeuronHealth {unhealthy}"
    return "disruption notice" if disrupted else None


def _unwell(pod: PodRecord, view: View, now: float) -> str | None:
    """Why a replica that is past its startup is to be replaced; None while there is hope.

    Counted from when it was first seen so: Ready's own time is that of the pod's creation until
    the first canary after the startup probe.
    """
    since = view.unready_since.get(pod.uid)
    if since is None or now - since <= view.patience.unready_s:
        return None
    return f"canary fails for {now - since:.0f} s"


def _as_many(seats: list[Seat], deployment: DeploymentRecord, view: View, now: float) -> list[Seat]:
    """As many as the Deployment is to have, so that no decision is made twice.

    What it has yet to make, or to make anew, counts as booting; what it has yet to delete as
    draining. So a replica that fails or leaves keeps its place, whatever is known of the load.
    """
    live = [seat for seat in seats if seat.pod is not None and not seat.pod.terminating]
    given_up = sum(seat.phase is Phase.FAILED and seat.unplaced is not None for seat in live)
    counted = [seat for seat in live if seat.phase in _ON_THE_WAY]
    target = deployment.replicas - given_up
    if any(seat.beside for seat in live) and _alone(deployment, view):
        # The one more that is held for it stands beside what was decided.
        target = min(target, base_count(view, deployment.variant))
    missing = target - len(counted)
    if missing >= 0:
        return seats + [_unborn(deployment, number, now) for number in range(missing)]
    surplus = {seat.seen.name for seat in _least_first(counted)[:-missing]}
    return [
        _with_phase(seat, Phase.DRAINING) if seat.seen.name in surplus else seat for seat in seats
    ]


def _alone(deployment: DeploymentRecord, view: View) -> bool:
    """Whether no other revision of its variant holds replicas."""
    held = [d for d in view.deployments if d.variant == deployment.variant and d.replicas]
    return all(one.revision == deployment.revision for one in held)


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
    current = view.revisions.get(variant)
    mine = [d for d in view.deployments if d.variant == variant]
    told = next((v.desired for v in view.status.variants if v.name == variant), None)
    if told is not None and view.acts:
        return told
    olds = [d.replicas for d in mine if d.revision != current]
    return sum(olds) if any(olds) else sum(d.replicas for d in mine)


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
