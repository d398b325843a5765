"""Why a fleet has its size: its status, put in order."""

from dataclasses import asdict, dataclass
from typing import Any

from neuronfleet.serving.api.status import DecisionRecord, FleetStatus, StatusCondition
from neuronfleet.serving.controller.plugin.reader import Body
from neuronfleet.serving.controller.plugin.why.reasons import sentence, well
from neuronfleet.serving.controller.plugin.words import stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What `why` shows of one fleet."""

    namespace: str
    name: str
    mode: str
    generation: int | None
    status: FleetStatus
    now: float
    """Unix seconds."""

    @property
    def reason(self) -> str | None:
        """Why it has its size, in one word."""
        last = self.status.last_decision
        return self.status.reason or (None if last is None else last.reason)

    @property
    def limits(self) -> tuple[StatusCondition, ...]:
        """Conditions that are not as they should be."""
        return tuple(one for one in self.status.conditions if not well(one))

    @property
    def behind(self) -> str | None:
        """What the status does not know of the spec."""
        seen = self.status.observed_generation
        if seen is None:
            return "the controller has not written this fleet's status yet"
        if self.generation is not None and seen < self.generation:
            return f"the status answers generation {seen} of the spec; now is {self.generation}"
        return None


def explain(fleet: Body, now: float) -> Why:
    """From a ServingFleet as the API server gives it; `now` in Unix seconds."""
    metadata = fleet["metadata"]
    return Why(
        namespace=metadata["namespace"],
        name=metadata["name"],
        mode=str((fleet.get("spec") or {}).get("mode") or "Active"),
        generation=metadata.get("generation"),
        status=FleetStatus.from_dict(fleet.get("status") or {}),
        now=now,
    )


def total(decision: DecisionRecord) -> int | None:
    """Replicas that were decided; None where the record does not say."""
    return sum(decision.desired.values()) if decision.desired else None


def before(decision: DecisionRecord) -> int | None:
    """Replicas serving or booting before the decision."""
    return None if decision.inputs is None else decision.inputs.current


def load(decision: DecisionRecord) -> float | None:
    """The load that was staffed for."""
    return None if decision.inputs is None else decision.inputs.load


def document(why: Why) -> dict[str, Any]:
    """The JSON that docs/schemas/kubectl-why.json describes; null is unknown."""
    status = why.status
    last = status.last_decision
    return {
        "namespace": why.namespace,
        "name": why.name,
        "mode": why.mode,
        "generation": why.generation,
        "observed_generation": status.observed_generation,
        "reason": why.reason,
        "sentence": sentence(why.reason),
        **{
            name: getattr(status, name)
            for name in (
                "desired", "serving", "booting", "draining", "standby", "ceiling", "load",
                "usd_per_hour",
            )
        },
        "variants": [_variant(one) for one in status.variants],
        "decided_at": None if last is None else stamp(last.at),
        "inputs": None if last is None or last.inputs is None else asdict(last.inputs),
        "limits": [_condition(one) for one in why.limits],
        "rollout": _rollout(status),
        "decisions": [_decision(one) for one in reversed(status.decisions)],
    }  # fmt: skip


def _variant(one: Any) -> dict[str, Any]:
    found = asdict(one)
    del found["boots"]
    return found


def _condition(one: StatusCondition) -> dict[str, Any]:
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": one.message,
        "since": stamp(one.last_transition_time),
    }


def _rollout(status: FleetStatus) -> dict[str, Any] | None:
    if status.rollout is None:
        return None
    found = asdict(status.rollout)
    found["from"] = found.pop("from_")
    return found | {"started_at": stamp(status.rollout.started_at)}


def _decision(one: DecisionRecord) -> dict[str, Any]:
    return {
        "at": stamp(one.at),
        "from": before(one),
        "to": total(one),
        "desired": dict(one.desired),
        "reason": one.reason,
        "load": load(one),
    }
