"""A fleet's conditions: what is so, since when, and what to do about it."""

from dataclasses import replace
from datetime import UTC, datetime

from neuronfleet.serving.api.status import StatusCondition
from neuronfleet.serving.controller.judge import Judged
from neuronfleet.serving.controller.rollout import ROLLED_BACK, WARMING
from neuronfleet.serving.controller.view import MetricsState
from neuronfleet.serving.planner.decide import Reason
from neuronfleet.serving.planner.observation import Phase

Found = tuple[str, str, str]
"""Status (True, False or Unknown), reason, message."""


def moment(now: float) -> datetime:
    """A time as Kubernetes writes it: in UTC, whole seconds."""
    return datetime.fromtimestamp(int(now), UTC)


def conditions(judged: Judged) -> tuple[StatusCondition, ...]:
    """All conditions of a fleet that can be read and run."""
    found = {
        "Ready": _ready(judged),
        "Progressing": _progressing(judged),
        "MetricsAvailable": _metrics(judged),
        "ScalingLimited": _limited(judged),
        "CapacityAvailable": _capacity(judged),
        "GraphCacheReady": (
            "Unknown",
            "NotReported",
            "replicas do not report yet whether their graphs came from the store",
        ),
        "Degraded": _degraded(judged),
    }
    return dated(found, judged.view.status.conditions, judged.view.record.generation, judged.now)


def dated(
    found: dict[str, Found],
    before: tuple[StatusCondition, ...],
    generation: int,
    now: float,
) -> tuple[StatusCondition, ...]:
    """Conditions with the time of their last transition; those not found stay as they were."""
    known = {one.type: one for one in before}
    made = dict(known)
    for kind, (status, reason, message) in found.items():
        last = known.get(kind)
        since = last.last_transition_time if last and last.status == status else moment(now)
        made[kind] = StatusCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since,
            observed_generation=generation,
        )
    return tuple(made.values())


def refused(
    kind: str,
    reason: str,
    message: str,
    before: tuple[StatusCondition, ...],
    generation: int,
    now: float,
) -> tuple[StatusCondition, ...]:
    """Conditions of a fleet that is left as it is, since it cannot be read or must not run."""
    found: dict[str, Found] = {kind: ("True", reason, message)}
    known = any(one.type == "Ready" for one in before)
    found["Ready"] = ("Unknown" if known else "False", reason, message)
    return dated(found, before, generation, now)


def changed(
    before: tuple[StatusCondition, ...], after: tuple[StatusCondition, ...]
) -> list[StatusCondition]:
    """Conditions with another status or reason than before: what an Event is worth."""
    known = {one.type: (one.status, one.reason) for one in before}
    return [one for one in after if known.get(one.type) != (one.status, one.reason)]


def without_times(found: tuple[StatusCondition, ...]) -> tuple[StatusCondition, ...]:
    """For comparing."""
    return tuple(replace(one, last_transition_time=None) for one in found)


def _ready(judged: Judged) -> Found:
    serving = judged.people.count(Phase.SERVING)
    least = judged.view.fleet.bounds.min_replicas
    if serving >= max(1, least):
        return "True", "Serving", f"{serving} replicas answered their canary"
    if judged.decision.total == 0 and least == 0:
        return "True", "ScaledToZero", "no load; the next request starts a boot"
    booting = judged.people.count(Phase.BOOTING)
    text = f"{serving} of at least {max(1, least)} replicas serve, {booting} boot"
    return "False", "Booting" if booting else "NoReplicas", text


def _progressing(judged: Judged) -> Found:
    rollout = judged.rollout
    if rollout is not None and rollout.state != ROLLED_BACK:
        what = "Warming" if rollout.state == WARMING else "RollingOut"
        text = f"{rollout.variant}: revision {rollout.from_} to {rollout.to}, {rollout.reason}"
        return "True", what, text
    if not judged.acts and (pending := _not_begun(judged)):
        return "False", "Advisory", f"mode Advisory begins no rollout: {', '.join(pending)}"
    booting, wanted = judged.people.count(Phase.BOOTING), sum(judged.carried.values())
    have = booting + judged.people.count(Phase.SERVING)
    if booting or have != wanted:
        return "True", "Scaling", f"{wanted} desired, {booting} boot"
    return "False", "Stable", f"{wanted} replicas as desired"


def _not_begun(judged: Judged) -> list[str]:
    """Variants whose Deployments are all of other revisions than the spec describes."""
    held = {(d.variant, d.revision) for d in judged.view.deployments}
    variants = {variant for variant, _ in held}
    return [
        f"{name}: revision {revision}"
        for name, revision in judged.view.revisions.items()
        if name in variants and (name, revision) not in held
    ]


def _metrics(judged: Judged) -> Found:
    state, detail = judged.view.metrics, judged.view.metrics_detail
    return "True" if state is MetricsState.FOUND else "False", str(state), detail


def _limited(judged: Judged) -> Found:
    reason, bounds = judged.decision.reason, judged.view.fleet.bounds
    if reason in (Reason.AT_MAXIMUM, Reason.ABOVE_MAXIMUM):
        return "True", str(reason), f"maxReplicas = {bounds.max_replicas} holds the fleet down"
    if reason in (Reason.NO_CAPACITY, Reason.BUDGET):
        return "True", str(reason), "; ".join(judged.limited.values()) or "no variant can grow"
    if reason is Reason.UNKNOWN:
        return "True", str(reason), "metrics are not known: the fleet does not shrink"
    return "False", "WithinBounds", f"desired lies within the bounds ({reason})"


def _capacity(judged: Judged) -> Found:
    short = {k: v for k, v in judged.limited.items() if k not in judged.view.blocked}
    if not short:
        return "True", "Available", "no variant was found to lack nodes"
    text = "; ".join(f"{name}: {why}" for name, why in short.items())
    ending = any("reservation" in why for why in short.values())
    return "False", "ReservationEnding" if ending else "NoCapacity", text


def _degraded(judged: Judged) -> Found:
    if judged.rollout is not None and judged.rollout.state == ROLLED_BACK:
        rollout = judged.rollout
        text = f"{rollout.variant}: revision {rollout.to} was rolled back: {rollout.reason}"
        return "True", "RolledBack", text
    if judged.view.blocked:
        text = "; ".join(f"{name}: {why}" for name, why in judged.view.blocked.items())
        return "True", "VariantBlocked", text
    if judged.view.refused:
        return "True", "ApplyRefused", judged.view.refused
    failing = [f"{s.seen.name} {s.failing}" for s in judged.people.seats if s.failing]
    if failing:
        return "True", "BootsFail", "; ".join(failing[:5])
    lost = [seat for seat in judged.people.seats if seat.lost]
    if lost:
        nodes = sorted({seat.pod.node or "" for seat in lost if seat.pod})
        return "True", "NodeNotReady", f"nodes do not answer: {', '.join(nodes)}"
    leaving = [f"{seat.seen.name}: {seat.leaving}" for seat in judged.leaving]
    if leaving:
        return "True", "ReplacingReplicas", "; ".join(leaving[:5])
    return "False", "Well", "no replica fails"
