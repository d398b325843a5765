"""Which devices a replica takes, and which nodes may carry it."""

import re
from typing import Any

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType, Variant
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings

NEURON = "aws.amazon.com/neuron"
_AMD_FAMILIES = ("mi300x",)
_ZONE_ID = re.compile(r"[a-z]+[0-9]+(-[a-z]+[0-9]+)?-az[0-9]+")
_CAPACITY = {
    CapacityType.ON_DEMAND: "on-demand",
    CapacityType.SPOT: "spot",
    # Karpenter has one word for both: a block is a reservation that ends.
    CapacityType.RESERVED: "reserved",
    CapacityType.CAPACITY_BLOCK: "reserved",
}
_MIB = 2**20


def device_resource(variant: Variant) -> str:
    """The extended resource that a replica requests: whole devices.

    Cores (`aws.amazon.com/neuroncore`) are not used: Karpenter counts physical ones (128 on
    trn2.48xlarge) where the device plugin advertises logical ones (64 at LNC 2).
    """
    if variant.instance.is_neuron:
        return NEURON
    return "amd.com/gpu" if variant.instance.family in _AMD_FAMILIES else "nvidia.com/gpu"


def requests(variant: Variant, settings: WorkloadSettings) -> dict[str, str]:
    """CPU and memory of one replica; what the catalog does not know is not requested."""
    part = settings.request_share * variant.devices / variant.instance.accelerators
    found = {}
    if part and variant.instance.vcpus is not None:
        found["cpu"] = _cores(variant.instance.vcpus * part)
    if part and variant.instance.memory_gib is not None:
        found["memory"] = bytes_quantity(variant.instance.memory_gib * 1024 * _MIB * part)
    return found


def shm_bytes(variant: Variant, settings: WorkloadSettings) -> float:
    """Most of /dev/shm, which is memory: inf2.xlarge, 16 GiB -> 4 GiB."""
    memory = variant.instance.memory_gib
    if memory is None:
        return settings.shm_bytes
    share = memory * 1024 * _MIB * variant.devices / variant.instance.accelerators
    return min(settings.shm_bytes, share / 4)


def bytes_quantity(count: float) -> str:
    """A Kubernetes quantity as the API server itself would write it, in whole MiB."""
    mebibytes = int(count / _MIB)
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"


def _cores(count: float) -> str:
    thousandths = int(count * 1000)
    return f"{thousandths // 1000}" if thousandths % 1000 == 0 else f"{thousandths}m"


def tolerations(variant: Variant) -> list[dict[str, Any]]:
    """Taints of accelerator nodes.

    None of Karpenter's: it does not drain a pod that tolerates `karpenter.sh/disrupted`, so such
    a replica would die with its node.
    """
    return [{"key": device_resource(variant), "operator": "Exists", "effect": "NoSchedule"}]


def scheduler(variant: Variant, settings: WorkloadSettings) -> str | None:
    """The scheduler extension where adjacency matters: several devices, and not all of a node."""
    several = 1 < variant.devices < variant.instance.accelerators
    return settings.scheduler_name if several else None


def node_affinity(variant: Variant, path: str) -> dict[str, Any]:
    """The nodes that a variant means: instance, capacity type, zone, reservation.

    Raises:
        SpecError: zone names and zone IDs are mixed; no node would have both.
    """
    wanted = {
        "node.kubernetes.io/instance-type": [variant.instance.name],
        "karpenter.sh/capacity-type": [_CAPACITY[variant.capacity_type]],
    }
    if variant.zones:
        wanted[_zone_key(variant, path)] = list(variant.zones)
    if variant.reservation is not None:
        wanted["karpenter.k8s.aws/capacity-reservation-id"] = [variant.reservation.id]
    terms = [{"key": k, "operator": "In", "values": v} for k, v in wanted.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _zone_key(variant: Variant, path: str) -> str:
    ids = [zone for zone in variant.zones if _ZONE_ID.fullmatch(zone)]
    if not ids:
        return "topology.kubernetes.io/zone"
    if len(ids) != len(variant.zones):
        shown = ", ".join(variant.zones)
        raise SpecError(f"{path}.zones = {shown}, must be all zone names or all zone IDs")
    return "topology.k8s.aws/zone-id"


def spread(selector: dict[str, str]) -> list[dict[str, Any]]:
    """Over zones as evenly as capacity lets it: a replica in the wrong zone beats none."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(selector)},
        }
    ]
