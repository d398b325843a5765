"""The network: a block that holds the subnets, and a way out for nodes."""

import ipaddress
from collections.abc import Iterator

from neuronfleet.infra.settings.model import ExistingCluster, ExistingNetwork, NewNetwork, Settings
from neuronfleet.serving.api.problems import Problem

LARGEST, SMALLEST = 16, 28
"""Prefix lengths that a VPC takes."""
NODE_PREFIX = 19
"""A zone's node subnet: 8,192 addresses, of which a node of many pods takes dozens."""
PUBLIC_PREFIX = 24
"""A zone's subnet for a NAT gateway."""


def problems(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the network."""
    network = settings.network
    if isinstance(network, ExistingNetwork):
        yield from _existing(settings, network)
        return
    if isinstance(settings.cluster, ExistingCluster):
        allowed = "must be existing, the VPC in which the existing cluster stands"
        yield Problem(path="network", value="new", allowed=allowed)
    yield from _new(settings, network)


def _new(settings: Settings, network: NewNetwork) -> Iterator[Problem]:
    wrong = _cidr_problem(network.cidr) or _public(network.cidr)
    if wrong:
        yield Problem(path="network.cidr", value=network.cidr, allowed=wrong)
    elif not _holds(network.cidr, len(settings.zones)):
        allowed = (
            f"must hold a /{NODE_PREFIX} for nodes and a /{PUBLIC_PREFIX} for NAT in each of "
            f"{len(settings.zones)} zones, as 10.0.0.0/16"
        )
        yield Problem(path="network.cidr", value=network.cidr, allowed=allowed)
    if settings.zones and network.nat_gateways > len(settings.zones):
        allowed = f"must be at most one a zone, {len(settings.zones)}"
        yield Problem(path="network.natGateways", value=network.nat_gateways, allowed=allowed)


def _existing(settings: Settings, network: ExistingNetwork) -> Iterator[Problem]:
    path = "network.existing"
    wrong = _cidr_problem(network.cidr)
    if wrong:
        yield Problem(path=f"{path}.cidr", value=network.cidr, allowed=wrong)
    for zone in settings.zones:
        if zone not in network.subnets:
            allowed = f"must be the private subnet in {zone}, or {zone} must leave zones"
            yield Problem(path=f"{path}.subnets.{zone}", value="nothing", allowed=allowed)
    seen: dict[str, str] = {}
    for zone, subnet in network.subnets.items():
        if subnet in seen:
            allowed = f"must be another than that of {seen[subnet]}: a subnet is in one zone"
            yield Problem(path=f"{path}.subnets.{zone}", value=subnet, allowed=allowed)
        seen.setdefault(subnet, zone)


def _cidr_problem(cidr: str) -> str | None:
    """Why a block is none that a VPC takes; None where it is one."""
    try:
        block = ipaddress.IPv4Network(cidr)
    except ValueError:
        return "must be an IPv4 block whose first address it is, as 10.0.0.0/16"
    if not LARGEST <= block.prefixlen <= SMALLEST:
        return f"must be from /{LARGEST} to /{SMALLEST}, as 10.0.0.0/16"
    return None


def _public(cidr: str) -> str | None:
    """A new network takes private addresses; one that stands may have had its reasons."""
    if ipaddress.IPv4Network(cidr).is_private:
        return None
    return "must be of a private range (10/8, 172.16/12, 192.168/16), as 10.0.0.0/16"


def _holds(cidr: str, zones: int) -> bool:
    """Three zones need 3 * (2^13 + 2^8) = 25,344 addresses: a /17 has 32,768."""
    wanted: int = zones * (2 ** (32 - NODE_PREFIX) + 2 ** (32 - PUBLIC_PREFIX))
    return wanted <= ipaddress.IPv4Network(cidr).num_addresses
