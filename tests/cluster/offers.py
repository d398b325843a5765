"""What the cloud of the harness sells: the instance types that Karpenter may choose from.

Devices, cores and memory are those of the product's hardware catalog, and on-demand prices those
of its price catalog where it has them. All else is the harness's own and orders the offers only:
no figure of it may be shown as a price.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from neuronfleet.serving.api.hardware import InstanceType, instance_type
from neuronfleet.serving.api.prices import newest

REGION = "us-east-2"
ZONES = ("us-east-2a", "us-east-2b", "us-east-2c")
INSTANCE_TYPES = (
    "inf2.xlarge",
    "inf2.8xlarge",
    "inf2.24xlarge",
    "inf2.48xlarge",
    "trn1.2xlarge",
    "trn1.32xlarge",
    "trn2.3xlarge",
    "trn2.48xlarge",
)
CAPACITY_TYPES = ("on-demand", "spot", "reserved")

_DISCOUNTED = {"on-demand": 1.0, "spot": 0.4, "reserved": 0.6}
"""Invented: part of the on-demand price that each capacity type costs here."""
_PER_DEVICE_USD = 2.235
"""Invented for what has no price at all: that of a trn2.3xlarge capacity block, for each device."""
_PER_DEVICE = (12, 128.0)
"""vCPUs and GiB for each device of a type of which the catalog knows neither: a sixteenth of a
trn2.48xlarge's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One or more offers; None stands for all of its kind."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None

    def covers(self, name: str, zone: str, capacity_type: str) -> bool:
        """Whether this one offer is meant."""
        pairs = (
            (self.instance_type, name),
            (self.zone, zone),
            (self.capacity_type, capacity_type),
        )
        return all(wanted in (None, had) for wanted, had in pairs)


def instance_types(withdrawn: Sequence[Offer] = ()) -> list[dict[str, Any]]:
    """The document that Karpenter's kwok provider reads, without what was withdrawn."""
    document = []
    for name in INSTANCE_TYPES:
        offerings = [
            _offering(name, zone, kind)
            for zone, kind in product(ZONES, CAPACITY_TYPES)
            if not any(one.covers(name, zone, kind) for one in withdrawn)
        ]
        if offerings:
            document.append(
                {
                    "name": name,
                    "offerings": offerings,
                    "architecture": "amd64",
                    "operatingSystems": ["linux"],
                    "resources": resources(instance_type(name)),
                }
            )
    return document


def resources(hardware: InstanceType) -> dict[str, str]:
    """What a node of this type has."""
    cores, memory = _PER_DEVICE
    return {
        "cpu": str(hardware.vcpus or cores * hardware.accelerators),
        "memory": f"{hardware.memory_gib or memory * hardware.accelerators:.0f}Gi",
        "ephemeral-storage": "512Gi",
        "pods": "110",
        "aws.amazon.com/neuron": str(hardware.accelerators),
        "aws.amazon.com/neuroncore": str(hardware.cores or 0),
    }


def price(name: str, capacity_type: str) -> float:
    """What orders the offers: US dollars an hour where the catalog has them, invented otherwise."""
    known = newest().find(name, "on-demand")
    whole = known.usd_per_hour if known else _PER_DEVICE_USD * instance_type(name).accelerators
    return round(whole * _DISCOUNTED[capacity_type], 5)


def _offering(name: str, zone: str, capacity_type: str) -> dict[str, Any]:
    labels = {
        "karpenter.sh/capacity-type": capacity_type,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": REGION,
    }
    return {
        "Price": price(name, capacity_type),
        "Available": True,
        "Requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in labels.items()
        ],
    }
