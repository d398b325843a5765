"""What the controller keeps of the cluster's objects: a few fields of each, not the objects."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

FLEET_LABEL = "neuronfleet.dev/fleet"
VARIANT_LABEL = "neuronfleet.dev/variant"
REVISION_LABEL = "neuronfleet.dev/revision"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "neuronfleet"
APPLIED_ANNOTATION = "neuronfleet.dev/applied"
BOOT_ANNOTATION = "neuronfleet.dev/boot-p99-seconds"
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
PROTECT_ANNOTATION = "karpenter.sh/do-not-disrupt"
REPLICA = "replica"
"""The container of a pod that is the replica; a pod template may add others."""
DISRUPTED_TAINT = "karpenter.sh/disrupted"

Body = Mapping[str, Any]


def fleet_key(namespace: str, name: str) -> str:
    """`<namespace>.<fleet>`: the gateway's backend and the label `fleet` of metrics."""
    return f"{namespace}.{name}"


def unix(text: str | None) -> float | None:
    """Seconds of an RFC 3339 time; None where there is none."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One replica's pod."""

    name: str
    uid: str
    variant: str
    revision: str
    node: str | None
    created_s: float
    scheduled: bool
    scheduled_s: float | None
    """When a node was found."""
    unschedulable: str | None
    """The scheduler's message while it finds no node."""
    ready: bool
    ready_changed_s: float
    """When `ready` last changed; its creation before that."""
    started: bool
    """Whether its startup probe has passed: it has answered a canary since its last start."""
    restarts: int
    waiting: str | None
    """Why the container waits, as CrashLoopBackOff or ImagePullBackOff."""
    terminating: bool
    cost: str | None
    protected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRecord:
    """One revision of one variant."""

    name: str
    uid: str
    variant: str
    revision: str
    replicas: int
    created_s: float
    generation: int
    applied: str | None
    """Digest of the manifest that was last applied."""
    boot_p99_s: float | None
    """What its startup probe was sized for; it stays, since a change would restart every pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What matters of a node."""

    name: str
    uid: str
    ready: bool
    ready_changed_s: float
    """When `ready` last changed; 0 where nobody said."""
    cordoned: bool
    """Somebody drains it, or is about to."""
    disrupted: bool
    """Karpenter is about to take it: a spot notice, an expiry, a drift."""
    unhealthy: str | None
    """The reason of a NeuronHealth condition that turned bad."""
    instance_type: str | None
    sdk: str | None
    driver: str | None
    ami: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRecord:
    """One ServingFleet as stored."""

    namespace: str
    name: str
    uid: str
    generation: int
    created_s: float
    deleted: bool
    restarted_at: str | None
    body: Body
    """apiVersion, kind, metadata.name, spec and status."""

    @property
    def key(self) -> str:
        """Its fleet key."""
        return fleet_key(self.namespace, self.name)

    @property
    def model(self) -> str:
        """The model that it claims, unread."""
        return str((self.body["spec"].get("model") or {}).get("name"))


def _condition(status: Body, kind: str) -> Body:
    conditions: Sequence[Body] = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def _revised(body: Body) -> dict[str, str]:
    labels = body["metadata"].get("labels") or {}
    return {
        "variant": labels.get(VARIANT_LABEL, ""),
        "revision": labels.get(REVISION_LABEL, ""),
    }


def pod(body: Body) -> PodRecord:
    """The record of a pod."""
    metadata, status = body["metadata"], body.get("status") or {}
    notes = metadata.get("annotations") or {}
    ready, scheduled = _condition(status, "Ready"), _condition(status, "PodScheduled")
    containers: Sequence[Body] = status.get("containerStatuses") or ()
    container = next((one for one in containers if one.get("name", REPLICA) == REPLICA), {})
    state = container.get("state") or {}
    created = unix(metadata["creationTimestamp"]) or 0.0
    lost = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    return PodRecord(
        # Samples name it over and over: one string serves all.
        name=sys.intern(metadata["name"]),
        uid=metadata["uid"],
        **_revised(body),
        node=body["spec"].get("nodeName"),
        created_s=created,
        scheduled=body["spec"].get("nodeName") is not None,
        scheduled_s=unix(scheduled.get("lastTransitionTime")) or created
        if body["spec"].get("nodeName")
        else None,
        unschedulable=str(scheduled.get("message") or "no node fits") if lost else None,
        ready=ready.get("status") == "True",
        ready_changed_s=unix(ready.get("lastTransitionTime")) or created,
        started=bool(container.get("started")),
        restarts=int(container.get("restartCount") or 0),
        waiting=(state.get("waiting") or {}).get("reason"),
        terminating=metadata.get("deletionTimestamp") is not None,
        cost=notes.get(COST_ANNOTATION),
        protected=notes.get(PROTECT_ANNOTATION) == "true",
    )


def deployment(body: Body) -> DeploymentRecord:
    """The record of a Deployment."""
    metadata = body["metadata"]
    notes = metadata.get("annotations") or {}
    return DeploymentRecord(
        name=metadata["name"],
        uid=metadata["uid"],
        **_revised(body),
        replicas=int(body["spec"].get("replicas", 1)),
        created_s=unix(metadata["creationTimestamp"]) or 0.0,
        generation=int(metadata.get("generation") or 0),
        applied=notes.get(APPLIED_ANNOTATION),
        boot_p99_s=float(notes[BOOT_ANNOTATION]) if BOOT_ANNOTATION in notes else None,
    )


def node(body: Body) -> NodeRecord:
    """The record of a node."""
    metadata, status = body["metadata"], body.get("status") or {}
    labels = metadata.get("labels") or {}
    taints = {one.get("key") for one in body.get("spec", {}).get("taints") or ()}
    health, ready = _condition(status, "NeuronHealth"), _condition(status, "Ready")
    return NodeRecord(
        name=metadata["name"],
        uid=metadata["uid"],
        ready=ready.get("status") == "True",
        ready_changed_s=unix(ready.get("lastTransitionTime")) or 0.0,
        cordoned=bool(body.get("spec", {}).get("unschedulable")),
        disrupted=DISRUPTED_TAINT in taints,
        # The node problem detector's convention: True says that there is a problem.
        unhealthy=_unhealthy(health),
        instance_type=labels.get("node.kubernetes.io/instance-type"),
        sdk=labels.get("neuronfleet.dev/sdk"),
        driver=labels.get("neuronfleet.dev/driver"),
        ami=labels.get("neuronfleet.dev/ami"),
    )


def _unhealthy(health: Body) -> str | None:
    bad = health.get("status") == "True" or str(health.get("reason", "")).startswith(
        "NeuronHasError"
    )
    return str(health.get("reason") or "NeuronHealth") if bad else None


def fleet(body: Body) -> FleetRecord:
    """The record of a ServingFleet."""
    metadata = body["metadata"]
    notes = metadata.get("annotations") or {}
    return FleetRecord(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        created_s=unix(metadata["creationTimestamp"]) or 0.0,
        deleted=metadata.get("deletionTimestamp") is not None,
        restarted_at=notes.get("neuronfleet.dev/restarted-at"),
        body={
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "spec": body.get("spec") or {},
            "status": body.get("status") or {},
        },
    )
