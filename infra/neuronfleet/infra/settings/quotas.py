"""Which service quota a pool's nodes count against, in vCPUs, by family and market.

Codes of Service Quotas (service ec2). A family has one quota for all its types: inf2.xlarge and
inf2.48xlarge share one, and Trn never counts as the T of the standard quota.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import NewCluster, Settings
from neuronfleet.serving.api.variant import CapacityType


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of EC2, counted in vCPUs."""

    code: str
    name: str
    """As Service Quotas shows it."""


ON_DEMAND_TRN = Quota(code="L-2C3B7624", name="Running On-Demand Trn instances")
ON_DEMAND_INF = Quota(code="L-1945791B", name="Running On-Demand Inf instances")
SPOT_TRN = Quota(code="L-6B0D517C", name="All Trn Spot Instance Requests")
SPOT_INF = Quota(code="L-B5D1601B", name="All Inf Spot Instance Requests")
ON_DEMAND_STANDARD = Quota(
    code="L-1216C47A", name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
)
ALL: Mapping[str, Quota] = {
    quota.code: quota
    for quota in (ON_DEMAND_TRN, ON_DEMAND_INF, SPOT_TRN, SPOT_INF, ON_DEMAND_STANDARD)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one group of nodes counts at most."""

    quota: Quota
    vcpus: int
    """Nodes at most times vCPUs of their type."""
    by: str
    """Path of what uses it, as pools[0]."""


def quota_of(instance_type: str, capacity: CapacityType) -> Quota | None:
    """The quota that a node counts against; a capacity block's counts against none.

    A reserved instance runs on demand, and so does the reservation itself.
    """
    if capacity is CapacityType.CAPACITY_BLOCK:
        return None
    spot = capacity is CapacityType.SPOT
    if instance_type.startswith("trn"):
        return SPOT_TRN if spot else ON_DEMAND_TRN
    if instance_type.startswith("inf"):
        return SPOT_INF if spot else ON_DEMAND_INF
    return None if spot else ON_DEMAND_STANDARD


def uses(settings: Settings) -> tuple[Use, ...]:
    """What every pool and the system nodes count at most."""
    groups = [
        (f"pools[{index}]", pool.instance_type, pool.capacity, pool.most)
        for index, pool in enumerate(settings.pools)
    ]
    if isinstance(settings.cluster, NewCluster):
        nodes = settings.cluster.system_nodes
        where = "cluster.systemNodes"
        groups.append((where, nodes.instance_type, CapacityType.ON_DEMAND, nodes.most))
    found = []
    for path, instance_type, capacity, most in groups:
        offer, quota = offers.find(instance_type), quota_of(instance_type, capacity)
        if offer is not None and quota is not None:
            found.append(Use(quota=quota, vcpus=most * offer.vcpus, by=path))
    return tuple(found)


def needed(settings: Settings) -> Mapping[str, int]:
    """What the account has to allow, in vCPUs by quota code."""
    total: dict[str, int] = {}
    for use in uses(settings):
        total[use.quota.code] = total.get(use.quota.code, 0) + use.vcpus
    return total
