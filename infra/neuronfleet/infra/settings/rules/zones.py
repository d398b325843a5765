"""Where things stand: zones of the region, and which of them offer what a pool wants."""

import re
from collections.abc import Iterator, Sequence

from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import NewCluster, Owner, Pool, Settings
from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api.problems import Problem

_ZONE_NAME = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9][a-z]")
NO_CONTROL_PLANE = ("use1-az3", "usw1-az2", "cac1-az3")
"""EKS User Guide, network requirements: zones in which a control plane takes no subnet."""
LEAST_ZONES = 2
"""EKS User Guide, network requirements: subnets in at least two zones."""


def problems(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the region, its zones and who stands where.

    Zones that are wrong themselves hide what would follow of them for pools.
    """
    if settings.region not in offers.regions():
        known = ", ".join(sorted({r for t in _neuron() for r in t.zones}))
        allowed = f"must be a region with Neuron instances: {known}"
        yield Problem(path="region", value=settings.region, allowed=allowed)
        return
    of_network = list(_of_network(settings))
    yield from of_network
    for index, pool in enumerate(settings.pools):
        yield from _of_pool(settings, pool, f"pools[{index}]", trust=not of_network)
    if not of_network:
        yield from _of_system_nodes(settings)


def _of_network(settings: Settings) -> Iterator[Problem]:
    known = offers.regions()[settings.region]
    wrong = False
    for index, zone in enumerate(settings.zones):
        path = f"zones[{index}]"
        allowed = _misplaced(zone, settings.region)
        if zone in NO_CONTROL_PLANE:
            usable = ", ".join(one for one in known if one not in NO_CONTROL_PLANE)
            allowed = f"must be a zone in which EKS places control planes: {usable}"
        elif zone in settings.zones[:index]:
            allowed = "must be given once"
        if allowed:
            wrong = True
            yield Problem(path=path, value=zone, allowed=allowed)
    least = LEAST_ZONES if isinstance(settings.cluster, NewCluster) else 1
    if not wrong and len(settings.zones) < least:
        allowed = f"must be {least} or more zone IDs of {settings.region}: {', '.join(known)}"
        yield Problem(path="zones", value=_shown(settings.zones), allowed=allowed)


def _of_pool(settings: Settings, pool: Pool, path: str, *, trust: bool) -> Iterator[Problem]:
    offer = offers.find(pool.instance_type)
    if offer is None or not offer.is_neuron:
        allowed = f"must be one of {', '.join(offers.neuron_types())}"
        yield Problem(path=f"{path}.instanceType", value=pool.instance_type, allowed=allowed)
        return
    offering = offer.zones.get(settings.region)
    if offering is None:
        elsewhere = ", ".join(offer.zones)
        allowed = (
            f"is not offered in {settings.region}; must be another type, or region {elsewhere}"
        )
        yield Problem(path=f"{path}.instanceType", value=pool.instance_type, allowed=allowed)
        return
    count_wrong = list(_count(pool, path, offering))
    yield from count_wrong
    if count_wrong:
        return
    for index, zone in enumerate(pool.zones):
        wrong = _misplaced(zone, settings.region)
        if wrong is None and zone not in offering:
            wrong = f"does not offer {offer.name}; must be one of {', '.join(offering)}"
        elif wrong is None and trust and zone not in settings.zones:
            wrong = f"must be one of zones = {', '.join(settings.zones)}, or be added there"
        elif wrong is None and zone in pool.zones[:index]:
            wrong = "must be given once"
        if wrong:
            yield Problem(path=f"{path}.zones[{index}]", value=zone, allowed=wrong)


def _count(pool: Pool, path: str, offering: Sequence[str]) -> Iterator[Problem]:
    """A node group stands in one zone, where its EFA or its reservation is; Karpenter in any."""
    one = pool.owner is Owner.NODE_GROUP
    if not pool.zones or (one and len(pool.zones) != 1):
        how = "exactly one zone for a node group" if one else "one zone or more"
        allowed = f"must be {how}, of {', '.join(offering)}"
        yield Problem(path=f"{path}.zones", value=_shown(pool.zones), allowed=allowed)


def _of_system_nodes(settings: Settings) -> Iterator[Problem]:
    if not isinstance(settings.cluster, NewCluster):
        return
    name = settings.cluster.system_nodes.instance_type
    offer = offers.find(name)
    path = "cluster.systemNodes.instanceType"
    if offer is None or offer.is_neuron:
        general = [one.name for one in offers.all_types().values() if not one.is_neuron]
        yield Problem(path=path, value=name, allowed=f"must be one of {', '.join(general)}")
        return
    lacking = [zone for zone in settings.zones if zone not in offer.zones.get(settings.region, ())]
    if lacking:
        allowed = f"is not offered in {', '.join(lacking)}; must be a type that all zones offer"
        yield Problem(path=path, value=name, allowed=allowed)


def _misplaced(zone: str, region: str) -> str | None:
    """What a zone must be, where it is none of the region's."""
    known = offers.regions()[region]
    if zone in known or zone in NO_CONTROL_PLANE:
        return None
    if _ZONE_NAME.fullmatch(zone):
        return (
            f"must be a zone ID, one of {', '.join(known)}: a zone name is another place in each "
            "account (aws ec2 describe-availability-zones tells both)"
        )
    return f"must be a zone ID of {region}: {', '.join(known)}"


def _neuron() -> list[Offer]:
    return [offer for offer in offers.all_types().values() if offer.is_neuron]


def _shown(zones: Sequence[str]) -> str:
    return ", ".join(zones) or "nothing"
