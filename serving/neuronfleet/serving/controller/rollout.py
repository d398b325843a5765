"""Which revision runs how many replicas: one warmed and asked its canary first, then the rest."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from neuronfleet.serving.api.fleet import Mode
from neuronfleet.serving.api.status import RolloutStatus
from neuronfleet.serving.controller.census import Census, base_count
from neuronfleet.serving.controller.reservations import closed, closing
from neuronfleet.serving.controller.view import View
from neuronfleet.serving.planner.decide import Decision
from neuronfleet.serving.planner.observation import Phase

WARMING, MOVING, ROLLED_BACK = "Warming", "Moving", "RolledBack"
_SURGE = 0.25
"""Part of a variant's replicas that boots beside those that serve, once the first one is well."""
_PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Replicas of one revision of one variant."""

    variant: str
    revision: str
    replicas: int
    current: bool
    """Whether the spec still describes it; else only its count can be changed."""


def split(
    view: View, people: Census, decision: Decision, now: float
) -> tuple[tuple[Split, ...], RolloutStatus | None]:
    """The decided counts by revision, and the state of the rollout if there is one."""
    splits: list[Split] = []
    rollout = _still_rolled_back(view)
    for variant in view.fleet.variants:
        name, current = variant.name, view.revisions[variant.name]
        wanted = _wanted(view, people, decision, name, now)
        olds = _olds(view, name)
        if not olds:
            splits.append(Split(variant=name, revision=current, replicas=wanted, current=True))
            continue
        if rollout is None or (rollout.variant == name and rollout.state != ROLLED_BACK):
            rollout = _state(view, people, name, now)
        mine = rollout.variant == name and rollout.state != ROLLED_BACK
        new = _new_count(view, people, name, wanted) if mine else 0
        splits.append(Split(variant=name, revision=current, replicas=new, current=True))
        left = wanted - min(wanted, _serving(people, name, current)) if mine else wanted
        splits += _shares(view, name, left)
    return (*splits, *_strangers(view, people, decision)), rollout


def _wanted(view: View, people: Census, decision: Decision, variant: str, now: float) -> int:
    """Replicas of a variant over all its revisions."""
    if view.fleet.mode is Mode.ADVISORY:
        return _found(view, variant, decision)
    if closing(view, variant, now):
        held = sum(d.replicas for d in view.deployments if d.variant == variant)
        return 0 if closed(view, variant, now) or _covered(people, decision, variant) else held
    beside = sum(seat.beside for seat in people.seats if seat.seen.variant == variant)
    return decision.desired[variant] + beside


def _found(view: View, variant: str, decision: Decision) -> int:
    """What somebody else has set; a fleet that is not there yet starts at its minimum."""
    mine = [d.replicas for d in view.deployments if d.variant == variant]
    if mine:
        return base_count(view, variant) if _olds(view, variant) else sum(mine)
    first = variant == view.fleet.variants[0].name
    return min(decision.desired[variant], view.fleet.bounds.min_replicas) if first else 0


def _covered(people: Census, decision: Decision, variant: str) -> bool:
    """Whether the other variants serve with all that was decided for them."""
    return all(
        len(people.of(name, Phase.SERVING)) >= count
        for name, count in decision.desired.items()
        if name != variant
    ) and any(count for name, count in decision.desired.items() if name != variant)


def _olds(view: View, variant: str) -> list[str]:
    """Revisions of a variant that still hold replicas, the spec's own apart."""
    current = view.revisions[variant]
    return [
        d.revision
        for d in view.deployments
        if d.variant == variant and d.revision != current and d.replicas > 0
    ]


def _still_rolled_back(view: View) -> RolloutStatus | None:
    """A rollout that failed stays failed until the spec asks for another revision."""
    last = view.status.rollout
    if last is None or last.variant is None or view.revisions.get(last.variant) != last.to:
        return None
    return last if _olds(view, last.variant) else None


def _state(view: View, people: Census, variant: str, now: float) -> RolloutStatus:
    current, last = view.revisions[variant], view.status.rollout
    same = last is not None and last.variant == variant and last.to == current
    started = last.started_at if same and last is not None else None
    started = started or datetime.fromtimestamp(int(now), UTC)
    failure = _failure(view, people, variant, now - started.timestamp())
    serving = _serving(people, variant, current)
    state = ROLLED_BACK if failure else MOVING if serving else WARMING
    return RolloutStatus(
        variant=variant,
        state=state,
        from_=_olds(view, variant)[0],
        to=current,
        reason=failure or f"{serving} of revision {current} serve",
        started_at=started,
    )


def _failure(view: View, people: Census, variant: str, age_s: float) -> str | None:
    """Why the new revision is given up; None while it may still come up."""
    current = view.revisions[variant]
    seats = [s for s in people.seats if (s.seen.variant, s.revision) == (variant, current)]
    for seat in seats:
        pod = seat.pod
        if pod is None or pod.terminating:
            continue
        if seat.phase is Phase.FAILED and seat.leaving:
            return f"{pod.name} {seat.leaving}"
        if pod.waiting in _PULL_FAILURES and age_s > view.patience.unready_s:
            return f"{pod.name} waits: {pod.waiting}"
    limit = view.patience.slow_boots * view.boots[variant].p99_s
    if not _serving(people, variant, current) and age_s > limit:
        return f"no replica of revision {current} passed its canary in {age_s:.0f} s"
    return None


def _new_count(view: View, people: Census, variant: str, wanted: int) -> int:
    serving = _serving(people, variant, view.revisions[variant])
    if serving == 0:
        return min(1, wanted)
    return min(wanted, serving + max(1, math.floor(_SURGE * wanted)))


def _serving(people: Census, variant: str, revision: str) -> int:
    """Ready replicas of a revision, those included that do not count yet."""
    return sum(
        seat.pod is not None
        and seat.pod.ready
        and not seat.pod.terminating
        and not seat.leaving
        and (seat.seen.variant, seat.revision) == (variant, revision)
        for seat in people.seats
    )


def _shares(view: View, variant: str, left: int) -> list[Split]:
    """What old revisions keep, the newest of them first."""
    current = view.revisions[variant]
    olds = sorted(
        (d for d in view.deployments if d.variant == variant and d.revision != current),
        key=lambda d: -d.created_s,
    )
    shares = []
    for index, deployment in enumerate(olds):
        # The oldest one takes what the others, none of which grows, do not hold.
        last = index == len(olds) - 1
        count = left if last else min(left, deployment.replicas)
        left -= count
        shares.append(
            Split(variant=variant, revision=deployment.revision, replicas=count, current=False)
        )
    return shares


def _strangers(view: View, people: Census, decision: Decision) -> list[Split]:
    """Variants that the spec no longer names: they stay until what was decided serves."""
    known = set(view.revisions)
    serving = sum(
        seat.phase is Phase.SERVING for seat in people.seats if seat.seen.variant in known
    )
    enough = serving >= decision.total
    return [
        Split(
            variant=d.variant,
            revision=d.revision,
            replicas=0 if enough else d.replicas,
            current=False,
        )
        for d in view.deployments
        if d.variant not in known
    ]
