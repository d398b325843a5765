"""What the cluster says, as the gateway needs it: fleets, replicas, and the gateway's pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from neuronfleet.serving.api.fields import duration_seconds
from neuronfleet.serving.controller.records import FLEET_LABEL, MANAGED_LABEL, MANAGER, fleet_key
from neuronfleet.serving.controller.workloads.names import (
    CEILING_LABEL,
    COMPONENT,
    COMPONENT_LABEL,
)
from neuronfleet.serving.gateway.runtime import MAX_CEILING

Object = Mapping[str, Any]

REPLICA_SELECTOR = f"{MANAGED_LABEL}={MANAGER},{COMPONENT_LABEL}={COMPONENT}"
SERVICE_LABEL = "kubernetes.io/service-name"
PORT = "http"
QUEUE_S = 60.0
"""As `ServingFleet.queue_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFact:
    """One ServingFleet."""

    key: str
    model: str
    queue_s: float
    created: str
    """RFC 3339 in UTC, so that the order of texts is that of times."""
    boot_s: float | None = None
    """Within which nine of ten replicas of its quickest variant boot; None: not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFact:
    """One endpoint of a fleet."""

    fleet: str
    pod: str
    host: str
    port: int
    ceiling: int
    ready: bool
    terminating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """One pod of the gateway."""

    pod: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All of it at one moment."""

    fleets: tuple[FleetFact, ...] = ()
    replicas: tuple[ReplicaFact, ...] = ()
    gateways: tuple[PodFact, ...] = ()


def fleet_fact(fleet: Object) -> FleetFact | None:
    """A ServingFleet; None where it is going, or says no model."""
    metadata, spec = fleet["metadata"], fleet.get("spec") or {}
    model = (spec.get("model") or {}).get("name")
    if not isinstance(model, str) or metadata.get("deletionTimestamp"):
        return None
    seconds = duration_seconds((spec.get("queue") or {}).get("timeout"))
    return FleetFact(
        key=fleet_key(metadata["namespace"], metadata["name"]),
        model=model,
        queue_s=QUEUE_S if seconds is None else seconds,
        created=str(metadata.get("creationTimestamp", "")),
        boot_s=_boot_s(fleet.get("status") or {}),
    )


def replica_facts(endpoint_slice: Object) -> list[ReplicaFact]:
    """Endpoints of a slice; one without a ceiling or a port says nothing that can be used."""
    metadata = endpoint_slice["metadata"]
    labels = metadata.get("labels") or {}
    ceiling, port = _ceiling(labels.get(CEILING_LABEL)), _port(endpoint_slice)
    fleet = labels.get(FLEET_LABEL)
    if fleet is None or ceiling is None or port is None:
        return []
    return [
        ReplicaFact(
            fleet=fleet_key(metadata["namespace"], fleet),
            pod=pod.pod,
            host=pod.host,
            port=port,
            ceiling=ceiling,
            # Absent means unknown, which the API asks to be taken for ready.
            ready=conditions.get("ready") is not False,
            terminating=conditions.get("terminating") is True,
        )
        for pod, conditions in _pods(endpoint_slice)
    ]


def pod_facts(endpoint_slice: Object) -> list[PodFact]:
    """Pods of a slice of the gateway's own Service."""
    return [pod for pod, _ in _pods(endpoint_slice)]


def _boot_s(status: Object) -> float | None:
    known = (one.get("bootP90Seconds") for one in status.get("variants") or [])
    return min((float(seconds) for seconds in known if seconds), default=None)


def _pods(endpoint_slice: Object) -> Iterable[tuple[PodFact, Mapping[str, Any]]]:
    for endpoint in endpoint_slice.get("endpoints") or []:
        name = (endpoint.get("targetRef") or {}).get("name")
        addresses = endpoint.get("addresses") or []
        if name and addresses:
            yield PodFact(pod=name, host=addresses[0]), endpoint.get("conditions") or {}


def _ceiling(label: str | None) -> int | None:
    if label is None or not label.isascii() or not label.isdigit():
        return None
    return int(label) if 1 <= int(label) <= MAX_CEILING else None


def _port(endpoint_slice: Object) -> int | None:
    for port in endpoint_slice.get("ports") or []:
        if port.get("name") == PORT and port.get("port"):
            return int(port["port"])
    return None
