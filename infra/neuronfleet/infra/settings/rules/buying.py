"""How a pool is bought, who launches it, and whether its nodes have EFA: each allows the other."""

from collections.abc import Iterator

from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import Owner, Pool, Settings
from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api.problems import Problem
from neuronfleet.serving.api.variant import CapacityType

_KARPENTERS = (CapacityType.ON_DEMAND, CapacityType.SPOT)
_UNUSED = CapacityType.RESERVED
"""A reservation holds on-demand instances: EC2 lists no use of this name."""


def problems(settings: Settings) -> Iterator[Problem]:
    """What is wrong with market, owner and EFA of pools; unknown types are told elsewhere."""
    for index, pool in enumerate(settings.pools):
        offer = offers.find(pool.instance_type)
        if offer is None:
            continue
        found = next(_of_pool(pool, offer, f"pools[{index}]"), None)
        if found:
            yield found


def _of_pool(pool: Pool, offer: Offer, path: str) -> Iterator[Problem]:
    """The first contradiction: the others follow from it."""
    if pool.capacity is not _UNUSED and pool.capacity not in offer.uses:
        sold = ", ".join((*offer.uses, _UNUSED))
        allowed = f"is not how EC2 sells {offer.name}; must be one of {sold}"
        yield Problem(path=f"{path}.capacity", value=str(pool.capacity), allowed=allowed)
    if pool.efa and offer.efa_interfaces == 0:
        allowed = f"must be false: {offer.name} has no EFA interface"
        yield Problem(path=f"{path}.efa", value="true", allowed=allowed)
    if pool.owner is Owner.KARPENTER:
        yield from _karpenter(pool, path)
    else:
        yield from _node_group(pool, path)


def _karpenter(pool: Pool, path: str) -> Iterator[Problem]:
    if pool.capacity not in _KARPENTERS:
        allowed = f"must be node-group: Karpenter launches no {pool.capacity} pool here"
        yield Problem(path=f"{path}.owner", value=str(pool.owner), allowed=allowed)
    if pool.efa:
        allowed = "must be false, or owner must be node-group: EFA pools stand in one place"
        yield Problem(path=f"{path}.efa", value="true", allowed=allowed)


def _node_group(pool: Pool, path: str) -> Iterator[Problem]:
    if pool.capacity is CapacityType.SPOT:
        allowed = "must be karpenter: it replaces spot nodes that are taken"
        yield Problem(path=f"{path}.owner", value=str(pool.owner), allowed=allowed)
    if pool.capacity is CapacityType.ON_DEMAND and not pool.efa:
        allowed = "must be karpenter, or efa must be true: a node group is for a fixed place"
        yield Problem(path=f"{path}.owner", value=str(pool.owner), allowed=allowed)
