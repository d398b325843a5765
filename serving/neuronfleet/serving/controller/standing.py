"""A fleet's status, and the Events that its changes are worth."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from neuronfleet.serving.api.status import (
    MOST_BOOTS,
    MOST_DECISIONS,
    DecisionInputs,
    DecisionRecord,
    FleetStatus,
    StatusCondition,
    VariantStatus,
)
from neuronfleet.serving.controller import conditions
from neuronfleet.serving.controller.conditions import moment
from neuronfleet.serving.controller.judge import Judged
from neuronfleet.serving.controller.records import FLEET_LABEL, FleetRecord
from neuronfleet.serving.planner.observation import Phase

_LOAD_STEP = 0.1
"""Part by which a load has to change to be written again by itself."""
_MILD = ("Booting", "NoReplicas", "MetricsUnknown")
_WARNINGS = ("Degraded", "ScalingLimited")


def status_of(judged: Judged) -> FleetStatus:
    """What the fleet's status should say."""
    view, people = judged.view, judged.people
    serving = people.count(Phase.SERVING)
    wanted = judged.decision.total
    spare = max(0, serving - _least_serving(judged))
    return FleetStatus(
        observed_generation=view.record.generation,
        replicas=sum(d.replicas for d in view.deployments),
        selector=f"{FLEET_LABEL}={view.record.name}",
        desired=wanted,
        serving=serving,
        booting=people.count(Phase.BOOTING),
        draining=people.count(Phase.DRAINING),
        standby=min(view.fleet.bounds.standby, spare),
        ceiling=_slots(judged),
        load=_rounded(judged.decision.inputs.load),
        usd_per_hour=_rounded(_price(judged), 4),
        reason=str(judged.decision.reason),
        conditions=conditions.conditions(judged),
        last_decision=_decision(judged),
        decisions=_history(judged),
        variants=tuple(_variant(judged, one.name) for one in view.fleet.variants),
        rollout=judged.rollout,
    )


def refused(
    record: FleetRecord, before: FleetStatus, kind: str, reason: str, message: str, now: float
) -> FleetStatus:
    """The status of a fleet that is left as it is, and why."""
    found = conditions.refused(kind, reason, message, before.conditions, record.generation, now)
    return replace(before, observed_generation=record.generation, conditions=found)


def worth_writing(before: FleetStatus, after: FleetStatus) -> bool:
    """Whether anything changed that a reader would act on; a load that wavers is not."""
    return _essence(before) != _essence(after) or _moved(before.load, after.load)


def patch(before: FleetStatus, after: FleetStatus) -> dict[str, Any]:
    """The merge patch from one status to another: what is no longer known is taken away."""
    old, new = before.to_dict(), after.to_dict()
    return _merge(old, new)


def events(record: FleetRecord, before: FleetStatus, after: FleetStatus, now: float) -> list[Any]:
    """Events for what changed: each condition that took another state, and the fleet's size."""
    made = [
        _event(
            record,
            one.reason or one.type,
            f"{one.type}={one.status}: {one.message}",
            _type(one),
            now,
        )
        for one in conditions.changed(before.conditions, after.conditions)
        # A new fleet's conditions are no transitions; what is wrong with it is told.
        if before.conditions or _type(one) == "Warning"
    ]
    if before.desired is not None and before.desired != after.desired:
        load = "unknown" if after.load is None else f"{after.load:g}"
        text = f"{before.desired} to {after.desired} replicas ({after.reason}, load {load})"
        made.append(_event(record, "Scaled", text, "Normal", now))
    return made


def _type(one: StatusCondition) -> str:
    good = "False" if one.type in _WARNINGS else "True"
    mild = one.type in ("Progressing", "GraphCacheReady") or one.reason in _MILD
    return "Normal" if one.status == good or mild else "Warning"


def _event(record: FleetRecord, reason: str, message: str, kind: str, now: float) -> dict[str, Any]:
    stamp = moment(now).isoformat().replace("+00:00", "Z")
    # Named by what it tells: one that was posted and not answered is not told twice.
    told = f"{record.uid} {reason} {message} {stamp}"
    name = f"{record.name}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": record.namespace},
        "involvedObject": {
            "apiVersion": record.body["apiVersion"],
            "kind": "ServingFleet",
            "namespace": record.namespace,
            "name": record.name,
            "uid": record.uid,
        },
        "reason": reason,
        "message": message[:1000],
        "type": kind,
        "source": {"component": "neuronfleet-controller"},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def _essence(status: FleetStatus) -> object:
    last = status.last_decision
    return replace(
        status,
        load=None,
        conditions=conditions.without_times(status.conditions),
        last_decision=None,
        decisions=(),
    ), None if last is None else (last.reason, dict(last.desired))


def _moved(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > max(1.0, _LOAD_STEP * before)


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    gone: dict[str, Any] = {name: None for name in old if name not in new}
    changed: dict[str, Any] = {}
    for name, value in new.items():
        if old.get(name) == value:
            continue
        nested = isinstance(value, dict) and isinstance(old.get(name), dict)
        changed[name] = _merge(old[name], value) if nested else value
    return gone | changed


def _least_serving(judged: Judged) -> int:
    return max(0, judged.decision.total - judged.view.fleet.bounds.standby)


def _slots(judged: Judged) -> int:
    """Slots of the replicas that serve."""
    return sum(
        len(judged.people.of(one.name, Phase.SERVING)) * one.ceiling
        for one in judged.view.staffing.variants
    )


def _price(judged: Judged) -> float | None:
    """Dollars an hour of all pods that hold devices; None where one's price is unknown."""
    prices = {one.name: one.usd_per_hour for one in judged.view.staffing.variants}
    total = 0.0
    for pod in judged.view.pods:
        price = prices.get(pod.variant)
        if not pod.scheduled:
            continue
        if price is None:
            return None
        total += price
    return total


def _decision(judged: Judged) -> DecisionRecord:
    """The decision now; the time is that of its last change."""
    decision, last = judged.decision, judged.view.status.last_decision
    same = (
        last is not None
        and last.reason == decision.reason
        and dict(last.desired) == decision.desired
    )
    inputs = {name: _rounded(value) for name, value in asdict(decision.inputs).items()}
    return DecisionRecord(
        at=last.at if same and last is not None else moment(judged.now),
        reason=str(decision.reason),
        desired=dict(decision.desired),
        inputs=DecisionInputs(
            load=inputs["load"],
            slots_needed=inputs["slots_needed"],
            arrivals_per_second=inputs["arrivals_per_s"],
            rate_per_replica=inputs["rate_per_replica"],
            current=decision.inputs.current,
            sample_age_seconds=inputs["sample_age_s"],
            origin=None if decision.inputs.origin is None else str(decision.inputs.origin),
            window_seconds=inputs["window_s"],
        ),
    )


def _history(judged: Judged) -> tuple[DecisionRecord, ...]:
    """The last decisions that differ, oldest first, each with the inputs that it was made on."""
    now, before = _decision(judged), judged.view.status.decisions
    if before and (before[-1].at, before[-1].reason) == (now.at, now.reason):
        return before
    return (*before, now)[-MOST_DECISIONS:]


def _variant(judged: Judged, name: str) -> VariantStatus:
    view, people = judged.view, judged.people
    spec = next(one for one in view.fleet.variants if one.name == name)
    staffed = next(one for one in view.staffing.variants if one.name == name)
    boots = view.boots[name]
    return VariantStatus(
        name=name,
        instance_type=spec.instance.name,
        capacity_type=str(spec.capacity_type),
        revision=view.revisions[name],
        desired=judged.carried[name],
        serving=len(people.of(name, Phase.SERVING)),
        booting=len(people.of(name, Phase.BOOTING)),
        draining=len(people.of(name, Phase.DRAINING)),
        ceiling=staffed.ceiling,
        usd_per_hour=_times(judged.carried[name], staffed.usd_per_hour),
        boot_p90_seconds=_rounded(boots.p90_s),
        boot_p99_seconds=_rounded(boots.p99_s),
        boots=tuple(round(one, 1) for one in boots.seen[-MOST_BOOTS:]),
        limited=judged.limited.get(name),
    )


def _times(count: int, usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else round(count * usd_per_hour, 4)


def _rounded(value: Any, digits: int = 2) -> Any:
    return round(value, digits) if isinstance(value, float) else value
