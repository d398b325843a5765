"""Objects of a small cluster as the API server gives them: a fleet, its pods, its surroundings."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from neuronfleet.serving.api import crd
from neuronfleet.serving.api.status import (
    DecisionInputs,
    DecisionRecord,
    FleetStatus,
    RolloutStatus,
    StatusCondition,
    VariantStatus,
)
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.source import SCRAPED_AT, Reading
from tests.controller_world import fleet_body, stamp, variant

NOW = 1_800_000_000.0
SPACE = "serving"
Body = dict[str, Any]


def moment(age_s: float) -> datetime:
    return datetime.fromtimestamp(NOW - age_s, UTC)


def decision(age_s: float, before: int, after: int, reason: str, load: float) -> DecisionRecord:
    return DecisionRecord(
        at=moment(age_s),
        reason=reason,
        desired={"inf2": after},
        inputs=DecisionInputs(
            load=load,
            slots_needed=load * 1.5,
            arrivals_per_second=0.4,
            rate_per_replica=0.21,
            current=before,
            sample_age_seconds=3.0,
            origin="metrics",
            window_seconds=900.0,
        ),
    )


def condition(kind: str, status: str, reason: str = "Because", message: str = "so") -> Any:
    return StatusCondition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=moment(240)
    )


def status(**changes: Any) -> FleetStatus:
    """Two replicas of inf2 serve and all is well."""
    first = decision(7200, 1, 2, "SlotsNeeded", 7.0)
    last = decision(180, 2, 2, "AtMaximum", 11.0)
    plain: dict[str, Any] = {
        "observed_generation": 1,
        "replicas": 2,
        "desired": 2,
        "serving": 2,
        "booting": 0,
        "draining": 0,
        "standby": 0,
        "ceiling": 8,
        "load": 11.0,
        "usd_per_hour": 1.5164,
        "reason": "AtMaximum",
        "conditions": (
            condition("Ready", "True"),
            condition("Progressing", "False", "Stable"),
            condition("MetricsAvailable", "True", "Found", "load is known"),
            condition("ScalingLimited", "False"),
            condition("CapacityAvailable", "True"),
            condition("GraphCacheReady", "Unknown", "NotReported"),
            condition("Degraded", "False"),
        ),
        "last_decision": last,
        "decisions": (first, last),
        "variants": (
            VariantStatus(
                name="inf2",
                instance_type="inf2.xlarge",
                capacity_type="on-demand",
                revision="aaaaaaaa",
                desired=2,
                serving=2,
                booting=0,
                draining=0,
                ceiling=4,
                usd_per_hour=1.5164,
                boot_p90_seconds=540.0,
                boot_p99_seconds=600.0,
            ),
        ),
    }
    return FleetStatus(**(plain | changes))


def rollout(state: str) -> RolloutStatus:
    return RolloutStatus(
        state=state,
        from_="aaaaaaaa",
        to="bbbbbbbb",
        reason="f-inf2-bbbbbbbb-1 waits: ErrImagePull",
        started_at=moment(600),
        variant="inf2",
    )


def fleet(found: FleetStatus | None = None, **spec: Any) -> Body:
    body = fleet_body(**spec)
    return body | {"status": (status() if found is None else found).to_dict()}


def pinned(**changes: Any) -> Body:
    """A variant whose pins are known to run together."""
    pins = {"sdk": "2.28", "driver": "2.26", "ami": "v20260304"}
    more: Body = {"backendGeneration": 1, "pins": pins}
    return variant(**(more | changes))


def pod(name: str = "f-inf2-aaaaaaaa-7d9f8b6c5d-x2k4q", **changes: Any) -> Body:
    """A replica that serves; `changes` go to the status, or by these names elsewhere."""
    node, age_s = (
        changes.pop("node", "ip-10-0-1-2.us-east-2.compute.internal"),
        changes.pop("age_s", 3600.0),
    )
    ready = changes.pop("ready", True)
    container: Body = {
        "name": "replica",
        "image": "neuron:1",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": {"running": {}},
    } | changes.pop("container", {})
    conditions = [
        {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(NOW - age_s / 2)}
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(NOW - age_s),
            "labels": {
                "app.kubernetes.io/managed-by": "neuronfleet",
                "app.kubernetes.io/component": "replica",
                "neuronfleet.dev/fleet": "f",
                "neuronfleet.dev/variant": changes.pop("variant", "inf2"),
                "neuronfleet.dev/revision": "aaaaaaaa",
            },
        },
        "spec": {} if node is None else {"nodeName": node},
        "status": {
            "conditions": conditions + changes.pop("conditions", []),
            "containerStatuses": [container],
        }
        | changes,
    }


def waiting(reason: str, message: str = "", **container: Any) -> Body:
    """A pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(ready=False, age_s=120.0, container={"state": state, **container})


def node(name: str = "ip-10-0-1-2.us-east-2.compute.internal", **changes: Any) -> Body:
    conditions = [{"type": "Ready", "status": changes.pop("ready", "True")}]
    labels = {
        "node.kubernetes.io/instance-type": "inf2.xlarge",
        "neuronfleet.dev/driver": "2.26",
        "neuronfleet.dev/ami": "v20260304",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels | changes.pop("labels", {}),
        },
        "spec": changes.pop("spec", {}),
        "status": {"conditions": conditions + changes.pop("conditions", [])},
    }


def lease(name: str, holder: str | None, age_s: float = 1.0, lasts_s: int = 5) -> Body:
    return {
        "metadata": {"name": name, "namespace": "neuronfleet"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": lasts_s,
            "renewTime": datetime.fromtimestamp(NOW - age_s, UTC).isoformat(),
        },
    }


def gateway_pod(name: str, *, ready: bool = True) -> Body:
    return {
        "metadata": {
            "name": name,
            "namespace": "neuronfleet",
            "labels": {
                "app.kubernetes.io/name": "neuronfleet",
                "app.kubernetes.io/instance": "neuronfleet",
                "app.kubernetes.io/component": "gateway",
            },
            "ownerReferences": [{"name": "neuronfleet-gateway-5c7d"}],
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def guard(kind: str, **status_: Any) -> Body:
    """The fleet's PodDisruptionBudget or NetworkPolicy."""
    selector = {"matchLabels": {"neuronfleet.dev/fleet": "f"}}
    key = "selector" if kind == "PodDisruptionBudget" else "podSelector"
    return {
        "kind": kind,
        "metadata": {"name": "f", "namespace": SPACE},
        "spec": {key: selector},
        "status": {"disruptionsAllowed": 1} | status_,
    }


def deployment(**status_: Any) -> Body:
    return {"metadata": {"name": "f-inf2-aaaaaaaa", "namespace": SPACE}, "status": status_}


def facts(**changes: Any) -> Facts:
    """A fleet of which every check says ok."""
    plain: dict[str, Any] = {
        "now": NOW,
        "fleet": fleet(variants=[pinned()]),
        "crd": crd.definition(),
        "controller_leases": (lease("neuronfleet-controller", "neuronfleet-controller-1"),),
        "gateway_leases": (lease("neuronfleet-gateway", "gateway-1", lasts_s=2),),
        "gateway_pods": (gateway_pod("gateway-1"), gateway_pod("gateway-2")),
        "pods": (pod(), pod("f-inf2-aaaaaaaa-7d9f8b6c5d-b7c9d")),
        "deployments": (deployment(),),
        "nodes": (node(),),
        "events": (),
        "quotas": (),
        "budgets": (guard("PodDisruptionBudget"),),
        "policies": (guard("NetworkPolicy"),),
    }
    return Facts(**(plain | changes))


def reading(queued: float = 3.0, age_s: float = 5.0, **held: float) -> Reading:
    recorded = {SCRAPED_AT: NOW - age_s, "fleet:queued:sum": queued}
    return Reading(recorded=recorded, in_flight=dict(held))


def printed(show: Callable[[Console], None], width: int = 80) -> str:
    """What a terminal of this width is shown."""
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False, markup=False, emoji=False))
    return out.getvalue()
