"""A reconcile's steps, in their order: each says what it wants done, and does nothing itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from neuronfleet.serving.controller.acts import (
    Act,
    Annotate,
    Apply,
    Cordon,
    Delete,
    DeletePod,
    Scale,
)
from neuronfleet.serving.controller.census import Seat
from neuronfleet.serving.controller.children import Children, digest_of
from neuronfleet.serving.controller.judge import Judged
from neuronfleet.serving.controller.records import COST_ANNOTATION, DeploymentRecord
from neuronfleet.serving.controller.records import PROTECT_ANNOTATION as PROTECT
from neuronfleet.serving.controller.rollout import Split
from neuronfleet.serving.controller.view import MetricsState
from neuronfleet.serving.planner.moves import moves
from neuronfleet.serving.planner.observation import Phase

Step = Callable[[Judged, Children], list[Act]]
_FIRST_COST = -1_000_000
"""Costs of candidates lie below those of all other pods, which are 0."""


def guard(judged: Judged, children: Children) -> list[Act]:
    """Policies and budget first: no replica is ever reachable without them."""
    return _applied(children.around(judged), children)


def serve(judged: Judged, children: Children) -> list[Act]:
    """A Service for each revision that the spec describes."""
    return _applied(children.services(judged), children)


def mark(judged: Judged, children: Children) -> list[Act]:
    """Deletion costs on those that should go, before any count is lowered."""
    if not judged.acts:
        return []
    wanted = {pod: cost for one in judged.splits for pod, cost in _costs(judged, one).items()}
    found = {pod.name: pod.cost for pod in judged.view.pods if not pod.terminating}
    return [
        Annotate(pod=name, annotations={COST_ANNOTATION: wanted.get(name)})
        for name, cost in found.items()
        if _differs(cost, wanted.get(name))
    ]


def _differs(found: str | None, wanted: str | None) -> bool:
    """Whether a cost is worth a write: its order among others counts, not its exact load."""
    return (found is None) != (wanted is None)


def _costs(judged: Judged, split: Split) -> dict[str, str]:
    """Costs of the replicas that a lower count should take: the emptiest the lowest.

    Marks that are as many as needed stay: a load that wavers would move them for ever.
    """
    seats = [
        replace(seat, seen=replace(seat.seen, phase=_real_phase(seat)))
        for seat in judged.people.seats
        if (seat.seen.variant, seat.revision) == (split.variant, split.revision)
        and seat.pod is not None
        and not seat.pod.terminating
    ]
    marked = {s.pod.name: s.pod.cost for s in seats if s.pod and s.pod.cost is not None}
    if marked and len(marked) == len(seats) - split.replicas:
        return marked
    alive = replace(judged.seen, replicas=tuple(seat.seen for seat in seats))
    going = moves({split.variant: split.replicas}, alive, judged.view.in_flight)
    names = (*going.cancel, *going.drain)
    return {name: str(_FIRST_COST + rank) for rank, name in enumerate(names)}


def _real_phase(seat: Seat) -> Phase:
    """Where the pod is, whatever it is counted as."""
    return Phase.SERVING if seat.pod is not None and seat.pod.ready else Phase.BOOTING


def scale(judged: Judged, children: Children) -> list[Act]:
    """Deployments with the counts that were decided."""
    acts: list[Act] = []
    found = {(d.variant, d.revision): d for d in judged.view.deployments}
    held = {
        one.variant
        for one in judged.splits
        if _must_wait(judged, one, found.get((one.variant, one.revision)))
    }
    for one in judged.splits:
        deployment = found.get((one.variant, one.revision))
        # What comes waits for what goes: else a rollout had more than its surge.
        wait = one.variant in held
        count = deployment.replicas if deployment is not None and wait else one.replicas
        if one.current:
            manifest = children.deployment(judged, replace(one, replicas=count), deployment)
            same = deployment is not None and deployment.applied == digest_of(manifest)
            if deployment is None or not same or deployment.replicas != count:
                acts.append(Apply(manifest=manifest, ours=deployment is not None))
        elif deployment is not None and deployment.replicas != count:
            acts.append(Scale(name=deployment.name, replicas=count))
    # What grows comes before what shrinks.
    return sorted(acts, key=lambda act: isinstance(act, Scale))


def _must_wait(judged: Judged, split: Split, found: DeploymentRecord | None) -> bool:
    """Whether a count may not fall yet, since not all that should go was seen to be marked.

    The ReplicaSet controller has its own watch: marks that reached ours have likely reached it.
    """
    if found is None or split.replicas >= found.replicas:
        return False
    costs = {pod.name: pod.cost for pod in judged.view.pods}
    return any(costs[name] is None for name in _costs(judged, split))


def leave(judged: Judged, children: Children) -> list[Act]:
    """Pods on nodes that are about to go, and replicas that have failed.

    A node whose devices fail is cordoned first: the scheduler would send the successor there.
    """
    if not judged.acts:
        return []
    acts: list[Act] = []
    for name in sorted({seat.pod.node or "" for seat in judged.leaving if seat.pod is not None}):
        node = judged.view.nodes.get(name)
        if node is not None and node.unhealthy and not node.cordoned:
            acts.append(Cordon(node=name, why=node.unhealthy))
    acts += [
        DeletePod(pod=seat.pod.name, uid=seat.pod.uid, why=seat.leaving)
        for seat in judged.leaving
        if seat.pod is not None and seat.leaving and not seat.pod.terminating
    ]
    return acts


def protect(judged: Judged, children: Children) -> list[Act]:
    """Karpenter may take a replica only when it has held no stream for a boot time."""
    if not judged.acts:
        return []
    acts: list[Act] = []
    for seat in judged.people.seats:
        pod = seat.pod
        if pod is None or pod.terminating:
            continue
        needed = not (pod.ready and _idle(judged, seat))
        if pod.protected != needed:
            acts.append(Annotate(pod=pod.name, annotations={PROTECT: str(needed).lower()}))
    return acts


def _idle(judged: Judged, seat: Seat) -> bool:
    """Whether a replica was seen without a stream for a whole P90 boot; unknown is not idle."""
    since = judged.view.idle_since.get(seat.seen.name)
    if since is None or judged.view.metrics is not MetricsState.FOUND:
        return False
    boots = judged.view.boots.get(seat.seen.variant)
    return boots is None or judged.now - since >= boots.p90_s


def prune(judged: Judged, children: Children) -> list[Act]:
    """Revisions that hold nothing any more, and to which nothing may have to go back."""
    if not judged.acts:
        return []
    kept = {(one.variant, one.revision) for one in judged.splits if one.current or one.replicas}
    held = {(pod.variant, pod.revision) for pod in judged.view.pods}
    if judged.rollout is not None:
        held.add((judged.rollout.variant or "", judged.rollout.from_ or ""))
    gone = [
        d
        for d in judged.view.deployments
        if (d.variant, d.revision) not in kept | held and d.replicas == 0
    ]
    acts: list[Act] = []
    for deployment in gone:
        acts.append(Delete(kind="Service", name=deployment.name))
        acts.append(Delete(kind="Deployment", name=deployment.name))
    return acts


STEPS: tuple[tuple[str, Step], ...] = (
    ("guard", guard),
    ("serve", serve),
    ("mark", mark),
    ("scale", scale),
    ("leave", leave),
    ("protect", protect),
    ("prune", prune),
)


def _applied(manifests: Iterable[Mapping[str, Any]], children: Children) -> list[Act]:
    """Those whose digest differs from that of what was applied last, or that are gone."""
    return [
        Apply(manifest=one, ours=name in children.found)
        for one in manifests
        if children.found.get(name := (one["kind"], one["metadata"]["name"])) != digest_of(one)
    ]
