"""Which addresses a zone gets: by its place in the settings, so that a new last zone moves none."""

import ipaddress
from collections.abc import Mapping, Sequence

NODE_PREFIX = 19
"""8,192 addresses: a trn2.48xlarge's pods and prefixes take hundreds."""
PUBLIC_PREFIX = 24


def node_cidrs(cidr: str, zones: Sequence[str]) -> Mapping[str, str]:
    """Blocks of the private subnets, from the low end of the VPC's."""
    blocks = ipaddress.IPv4Network(cidr).subnets(new_prefix=NODE_PREFIX)
    return {zone: str(block) for zone, block in zip(zones, blocks, strict=False)}


def public_cidrs(cidr: str, zones: Sequence[str]) -> Mapping[str, str]:
    """Blocks of the public subnets, from the high end of the VPC's downwards."""
    blocks = list(ipaddress.IPv4Network(cidr).subnets(new_prefix=PUBLIC_PREFIX))
    return {zone: str(block) for zone, block in zip(zones, reversed(blocks), strict=False)}
