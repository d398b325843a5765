"""Which revision runs how many replicas: one warmed and asked its canary first, then the rest."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from neuronfleet.serving.api.status import RolloutStatus
from neuronfleet.serving.controller.census import Census, Seat
from neuronfleet.serving.controller.reservations import closed, closing
from neuronfleet.serving.controller.view import View
from neuronfleet.serving.planner.observation import Phase
from neuronfleet.serving.planner.staffing import Counts

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
    view: View, people: Census, counts: Counts, now: float
) -> tuple[tuple[Split, ...], RolloutStatus | None]:
    """Counts of variants by revision, and the state of the rollout if there is one."""
    if not view.acts:
        return _as_found(view, counts), None
    splits: list[Split] = []
    rollout = _still_rolled_back(view)
    for variant in view.fleet.variants:
        name, current = variant.name, view.revisions[variant.name]
        wanted = _wanted(view, people, counts, name, now)
        failed = rollout is not None and (rollout.variant, rollout.state) == (name, ROLLED_BACK)
        if not failed and not _olds(view, name):
            splits.append(Split(variant=name, revision=current, replicas=wanted, current=True))
            continue
        if rollout is None or (rollout.variant == name and not failed):
            rollout = _state(view, people, name, now)
        mine = rollout.variant == name and rollout.state != ROLLED_BACK
        new = _new_count(view, people, name, wanted) if mine else 0
        splits.append(Split(variant=name, revision=current, replicas=new, current=True))
        left = wanted - min(wanted, _serving(people, name, current)) if mine else wanted
        splits += _shares(view, people, name, left)
    return (*splits, *_strangers(view, people, counts)), rollout


def _as_found(view: View, counts: Counts) -> tuple[Split, ...]:
    """What somebody else has set, and the first Deployment of a variant that has none."""
    found = [
        Split(
            variant=d.variant,
            revision=d.revision,
            replicas=d.replicas,
            current=view.revisions.get(d.variant) == d.revision,
        )
        for d in view.deployments
    ]
    there = {one.variant for one in found}
    return (
        *found,
        *(
            Split(variant=name, revision=current, replicas=counts[name], current=True)
            for name, current in view.revisions.items()
            if name not in there
        ),
    )


def _wanted(view: View, people: Census, counts: Counts, variant: str, now: float) -> int:
    """Replicas of a variant over all its revisions."""
    if closing(view, variant, now):
        held = sum(d.replicas for d in view.deployments if d.variant == variant)
        return 0 if closed(view, variant, now) or _covered(people, counts, variant) else held
    beside = sum(seat.beside for seat in people.seats if seat.seen.variant == variant)
    return counts[variant] + beside


def _covered(people: Census, counts: Counts, variant: str) -> bool:
    """Whether the other variants serve with all that was decided for them."""
    return all(
        len(people.of(name, Phase.SERVING)) >= count
        for name, count in counts.items()
        if name != variant
    ) and any(count for name, count in counts.items() if name != variant)


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
    if last.state != ROLLED_BACK:
        return last if _olds(view, last.variant) else None
    # Its old revision is what serves, even from no replica; where that is gone, the new one is all
    # that is left to try.
    homes = {d.revision for d in view.deployments if d.variant == last.variant}
    return last if last.from_ in homes else None


def _state(view: View, people: Census, variant: str, now: float) -> RolloutStatus:
    current, last = view.revisions[variant], view.status.rollout
    same = last is not None and last.variant == variant and last.to == current
    started = last.started_at if same and last is not None else None
    started = started or datetime.fromtimestamp(int(now), UTC)
    failure = _failure(view, people, variant, now)
    serving = _serving(people, variant, current)
    state = ROLLED_BACK if failure else MOVING if serving else WARMING
    return RolloutStatus(
        variant=variant,
        state=state,
        from_=_olds(view, variant)[0],
        to=current,
        reason=failure or _progress(people, variant, current, serving),
        started_at=started,
    )


def _progress(people: Census, variant: str, current: str, serving: int) -> str:
    text = f"{serving} of revision {current} serve"
    waiting = next((s.pod.unschedulable for s in _seats(people, variant, current) if s.pod), None)
    return text if waiting is None or serving else f"{text}; no node takes it: {waiting}"


def _seats(people: Census, variant: str, revision: str) -> list[Seat]:
    return [s for s in people.seats if (s.seen.variant, s.revision) == (variant, revision)]


def _failure(view: View, people: Census, variant: str, now: float) -> str | None:
    """Why the new revision is given up; None while it may still come up.

    Time counts from when a node was found: none says nothing of the revision.
    """
    current = view.revisions[variant]
    begun = now
    for seat in _seats(people, variant, current):
        pod = seat.pod
        if pod is None or pod.terminating:
            continue
        if seat.phase is Phase.FAILED and (seat.leaving or seat.failing):
            return f"{pod.name} {seat.leaving or seat.failing}"
        placed = now if pod.scheduled_s is None else pod.scheduled_s
        if pod.waiting in _PULL_FAILURES and now - placed > view.patience.unready_s:
            return f"{pod.name} waits: {pod.waiting}"
        begun = min(begun, placed)
    limit = view.patience.slow_boots * view.boots[variant].p99_s
    if not _serving(people, variant, current) and now - begun > limit:
        return f"no replica of revision {current} passed its canary in {now - begun:.0f} s"
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
        and not seat.lost
        for seat in _seats(people, variant, revision)
    )


def _shares(view: View, people: Census, variant: str, left: int) -> list[Split]:
    """What old revisions keep: what serves, and the best of them what is missing."""
    current = view.revisions[variant]
    ranked = sorted(
        (
            (_serving(people, variant, d.revision), d)
            for d in view.deployments
            if d.variant == variant and d.revision != current
        ),
        key=lambda one: (-one[0], -one[1].replicas, -one[1].created_s),
    )
    counts = []
    for serving, _ in ranked:
        counts.append(min(left, serving))
        left -= counts[-1]
    return [
        Split(
            variant=variant,
            revision=deployment.revision,
            replicas=count if index else count + left,
            current=False,
        )
        for index, (count, (_, deployment)) in enumerate(zip(counts, ranked, strict=True))
    ]


def _strangers(view: View, people: Census, counts: Counts) -> list[Split]:
    """Variants that the spec no longer names: they stay until what was decided serves."""
    known = set(view.revisions)
    serving = sum(
        seat.phase is Phase.SERVING for seat in people.seats if seat.seen.variant in known
    )
    enough = serving >= sum(counts.values())
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
