"""The Deployment of one revision of one variant, and the Service that names its replicas."""

import math
from collections.abc import Mapping
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller.records import BOOT_ANNOTATION
from neuronfleet.serving.controller.workloads import names
from neuronfleet.serving.controller.workloads.names import Manifest
from neuronfleet.serving.controller.workloads.pod import PORT_NAME, pod_template
from neuronfleet.serving.controller.workloads.probes import startup_s
from neuronfleet.serving.controller.workloads.replica_spec import PORT
from neuronfleet.serving.controller.workloads.revisions import revision
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings

_MIN_READY_S = 5


def deployment(
    fleet: ServingFleet,
    variant: Variant,
    *,
    namespace: str,
    owner: Mapping[str, Any],
    replicas: int | None,
    boot_p99_s: float,
    ceiling: int,
    settings: WorkloadSettings,
    restarted_at: str | None = None,
) -> Manifest:
    """The Deployment, `replicas` left out where another field manager owns the count.

    `boot_p99_s` is the P99 for which its startup probe is sized: for a Deployment that is there,
    what its annotation says, since another figure would replace its pods.

    Raises:
        SpecError: the variant cannot be a pod; names the field.
    """
    mark = revision(fleet, variant, settings, restarted_at)
    # Rounded before use, so that the annotation gives back the same probe.
    boot_s = math.ceil(boot_p99_s)
    labels = names.labels(fleet, variant, mark)
    metadata = names.metadata(
        names.object_name(fleet.name, variant.name, mark),
        namespace,
        owner,
        labels | {names.CEILING_LABEL: str(ceiling)},
    )
    count = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata | {"annotations": {BOOT_ANNOTATION: str(boot_s)}},
        "spec": {
            **count,
            "selector": {"matchLabels": names.selector(fleet, variant, mark)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "minReadySeconds": _MIN_READY_S,
            "progressDeadlineSeconds": startup_s(boot_s, settings)
            + math.ceil(settings.capacity_wait_s),
            # A revision is a Deployment of its own: old ReplicaSets would never be gone back to.
            "revisionHistoryLimit": 1,
            "template": pod_template(
                fleet,
                variant,
                settings=settings,
                revision=mark,
                boot_p99_s=boot_s,
                restarted_at=restarted_at,
            ),
        },
    }


def service(
    fleet: ServingFleet,
    variant: Variant,
    *,
    namespace: str,
    owner: Mapping[str, Any],
    ceiling: int,
    settings: WorkloadSettings,
    restarted_at: str | None = None,
) -> Manifest:
    """The headless Service of one revision; the gateway reads its EndpointSlices.

    Kubernetes copies its labels to them, the ceiling among them. Replicas that are not ready stand
    there too, marked so.
    """
    mark = revision(fleet, variant, settings, restarted_at)
    labels = names.labels(fleet, variant, mark) | {names.CEILING_LABEL: str(ceiling)}
    name = names.object_name(fleet.name, variant.name, mark)
    port = {"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": PORT_NAME}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(name, namespace, owner, labels),
        "spec": {
            "clusterIP": "None",
            "selector": names.selector(fleet, variant, mark),
            "ports": [port],
        },
    }
