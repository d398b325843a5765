"""The pod of a replica."""

from collections.abc import Mapping
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller.records import PROTECT_ANNOTATION
from neuronfleet.serving.controller.workloads import names, placement
from neuronfleet.serving.controller.workloads.merge import merged
from neuronfleet.serving.controller.workloads.probes import drain_hook, grace_s, probes
from neuronfleet.serving.controller.workloads.replica_spec import (
    PORT,
    REPLICA_ENV,
    literal,
    replica_json,
)
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings
from neuronfleet.serving.controller.workloads.template_guard import Guard
from neuronfleet.serving.controller.workloads.weights import TMP, Weights, weights

PORT_NAME = "http"
PINS_ANNOTATION = "neuronfleet.dev/pins"
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def pod_template(
    fleet: ServingFleet,
    variant: Variant,
    *,
    settings: WorkloadSettings,
    revision: str,
    boot_p99_s: float,
    restarted_at: str | None,
) -> dict[str, Any]:
    """The template of one revision's pods, the variant's podTemplate merged last.

    Raises:
        SpecError: no image is known, zones contradict, or the podTemplate or `env` would change
            what safety needs.
    """
    path = names.variant_path(fleet, variant)
    found = weights(fleet)
    selector = names.selector(fleet, variant, revision)
    container = _container(fleet, variant, found, settings)
    base = {
        "metadata": {
            "labels": names.labels(fleet, variant, revision),
            "annotations": _annotations(variant, restarted_at),
        },
        "spec": {
            **_identity(fleet, settings),
            **_schedule(variant, path, selector, settings),
            "terminationGracePeriodSeconds": grace_s(fleet, settings),
            "containers": [container | probes(boot_p99_s, settings)],
            "volumes": [*_memory(variant, settings), *found.volumes],
        },
    }
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    problems = Guard(f"{path}.podTemplate", mounts).check(variant.pod_template)
    if problems:
        raise SpecError.of(f"ServingFleet {fleet.name}", problems)
    return _hardened(merged(base, variant.pod_template))


def _annotations(variant: Variant, restarted_at: str | None) -> dict[str, str]:
    # Karpenter leaves a pod alone from its birth; the controller lifts that where it is idle.
    notes = {PROTECT_ANNOTATION: "true"}
    pins = variant.pins
    pinned = {"sdk": pins.sdk, "driver": pins.driver, "ami": pins.ami}
    shown = " ".join(f"{name}={value}" for name, value in pinned.items() if value is not None)
    if shown:
        notes[PINS_ANNOTATION] = shown
    if restarted_at is not None:
        notes[names.RESTARTED_ANNOTATION] = restarted_at
    return notes


def _identity(fleet: ServingFleet, settings: WorkloadSettings) -> dict[str, Any]:
    """Who the pod is: the service account that reads weights, and nobody to the API server.

    With an account of its own, that account says whether its token is mounted.
    """
    account = fleet.model.source.service_account
    identity: dict[str, Any] = {"automountServiceAccountToken": False}
    if account is not None:
        identity = {"serviceAccountName": account}
    return identity | {
        # A Service named vllm would set VLLM_PORT to its address, which vLLM takes for its port.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user,
            "runAsGroup": settings.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _schedule(
    variant: Variant, path: str, selector: dict[str, str], settings: WorkloadSettings
) -> dict[str, Any]:
    scheduler = placement.scheduler(variant, settings)
    named = {} if scheduler is None else {"schedulerName": scheduler}
    return named | {
        "affinity": placement.node_affinity(variant, path),
        "tolerations": placement.tolerations(variant),
        "topologySpreadConstraints": placement.spread(selector),
    }


def _memory(variant: Variant, settings: WorkloadSettings) -> list[dict[str, Any]]:
    limit = placement.bytes_quantity(placement.shm_bytes(variant, settings))
    return [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}},
        {"name": "tmp", "emptyDir": {}},
    ]


def _container(
    fleet: ServingFleet, variant: Variant, found: Weights, settings: WorkloadSettings
) -> dict[str, Any]:
    resource, count = placement.device_resource(variant), str(variant.devices)
    return {
        "name": names.COMPONENT,
        "image": image(fleet, variant, settings),
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "env": _environment(fleet, variant, found),
        "resources": {
            "requests": placement.requests(variant, settings) | {resource: count},
            "limits": {resource: count},
        },
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "tmp", "mountPath": TMP},
            *found.mounts,
        ],
        "lifecycle": drain_hook(fleet),
        "securityContext": _SECURITY,
    }


def image(fleet: ServingFleet, variant: Variant, settings: WorkloadSettings) -> str:
    """The variant's image, or its generation's.

    Raises:
        SpecError: there is neither.
    """
    default = None if variant.generation is None else settings.images.get(variant.generation)
    found = variant.image or default
    if found is None:
        what = "a GPU" if variant.generation is None else f"generation {variant.generation}"
        raise SpecError(
            f"{names.variant_path(fleet, variant)}.image = nothing, "
            f"must be given: this installation has no image for {what}"
        )
    return found


def _environment(fleet: ServingFleet, variant: Variant, found: Weights) -> list[dict[str, Any]]:
    """Ours first; the variant's own win over all but the replica's settings."""
    given = dict(variant.env)
    if REPLICA_ENV in given:
        at = f"{names.variant_path(fleet, variant)}.env.{REPLICA_ENV}"
        raise SpecError(f"{at} = {given[REPLICA_ENV]}, must be absent: it is the variant")
    settings = {"name": REPLICA_ENV, "value": literal(replica_json(fleet, variant))}
    own = [one for one in (settings, *found.env) if one["name"] not in given]
    return own + [{"name": name, "value": literal(value)} for name, value in given.items()]


def _hardened(template: Mapping[str, Any]) -> dict[str, Any]:
    """Containers of the podTemplate get the security context that the replica has."""
    spec = dict(template["spec"])
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [
                one | {"securityContext": _SECURITY | one.get("securityContext", {})}
                for one in spec[kind]
            ]
    return {**template, "spec": spec}
