"""Who can reach the API, and who may do anything there."""

import ipaddress
from collections.abc import Iterator

from neuronfleet.infra.settings.model import NewCluster, Settings
from neuronfleet.serving.api.problems import Problem

PLACEHOLDER = "role/WHO-ADMINISTERS"
"""What `infra init` writes where only a person can say who it is."""
WIDEST = 8
"""A wider block than this is half the internet rather than an office."""


def problems(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the way into the cluster; an existing one stays as it is."""
    if not isinstance(settings.cluster, NewCluster):
        return
    cluster = settings.cluster
    if not cluster.admins:
        where = "public" if cluster.public_cidrs else "private"
        allowed = (
            f"must name an IAM role or user, as role/ClusterAdmin: behind the {where} endpoint "
            "nobody could administer the cluster"
        )
        yield Problem(path="cluster.admins", value="nothing", allowed=allowed)
    for index, admin in enumerate(cluster.admins):
        if admin.arn == PLACEHOLDER:
            allowed = "must be the IAM role or user that administers the cluster"
            yield Problem(path=f"cluster.admins[{index}]", value=admin.arn, allowed=allowed)
    for index, cidr in enumerate(cluster.public_cidrs):
        wrong = _cidr_problem(cidr)
        if wrong:
            yield Problem(path=f"cluster.publicCidrs[{index}]", value=cidr, allowed=wrong)


def _cidr_problem(cidr: str) -> str | None:
    example = "as 203.0.113.0/24"
    try:
        block = ipaddress.ip_network(cidr)
    except ValueError:
        return f"must be an IPv4 block whose first address it is, {example}"
    if block.prefixlen == 0:
        return f"must not be the whole internet; must be the blocks that you call from, {example}"
    if isinstance(block, ipaddress.IPv6Network):
        return f"must be IPv4: the cluster's endpoint has no other, {example}"
    if block.prefixlen < WIDEST:
        return f"must be no wider than /{WIDEST}, {example}"
    if block.is_private and not _documented(block):
        return f"must be public addresses, {example}: private ones reach the private endpoint"
    return None


def _documented(block: ipaddress.IPv4Network) -> bool:
    """Blocks kept for documentation (RFC 5737) stand for public ones in examples."""
    kept = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
    return any(block.subnet_of(ipaddress.IPv4Network(one)) for one in kept)
