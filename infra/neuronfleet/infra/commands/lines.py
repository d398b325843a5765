"""What a deployment pays for beside its pools, stack by stack."""

from collections.abc import Iterator

from neuronfleet.infra.commands import stack_ids, tariff
from neuronfleet.infra.commands.bill import HOURS_PER_MONTH, Line
from neuronfleet.infra.settings.model import NewCluster, NewNetwork, Owner, Settings

SYSTEM_ROOT_GIB = 50
"""Root volume of a system node."""
INTERFACE_ENDPOINTS = 12
"""Services that nodes reach without the internet, an endpoint a zone each."""


def shared(settings: Settings) -> Iterator[Line]:
    """Lines of every stack that is no pool's."""
    yield from _network(settings)
    yield from _data(settings)
    yield from _build(settings)
    yield from _cluster(settings)
    yield from _addons(settings)
    yield from _observability(settings)


def alarms(settings: Settings) -> int:
    """One for pods that wait, and for Karpenter's notices, a block's schedules and each NAT."""
    karpenter = any(pool.owner is Owner.KARPENTER for pool in settings.pools)
    blocks = sum(pool.block is not None for pool in settings.pools)
    nats = settings.network.nat_gateways if isinstance(settings.network, NewNetwork) else 0
    return 1 + karpenter + blocks + nats


def priced(
    settings: Settings,
    stack: str,
    item: str,
    what: str,
    idle: float | None,
    most: float | None,
    *,
    pool: str | None = None,
) -> Line:
    """A line at the table's price in this region; an item priced by the hour takes hours."""
    found = tariff.find(item, settings.region)
    elsewhere = next((one for one in tariff.table() if one.item == item), None)
    unit = found or elsewhere
    return Line(
        stack=stack,
        pool=pool,
        what=what,
        unit=unit.unit if unit else "unit",
        usd=found.usd if found else None,
        idle=idle,
        most=most,
        source=_source(settings, item, found, elsewhere),
    )


def by_use(settings: Settings, stack: str, what: str, unit: str, why: str) -> Line:
    """A line that costs what is used of it, and of which no price is recorded."""
    return Line(stack=stack, what=what, unit=unit, usd=None, idle=None, most=None, source=why)


def _source(
    settings: Settings, item: str, found: tariff.Tariff | None, elsewhere: tariff.Tariff | None
) -> str:
    if found is not None:
        return f"{found.source} ({found.as_of})"
    if elsewhere is not None:
        return (
            f"unknown in {settings.region}: {elsewhere.usd:g} in {elsewhere.regions[0]} "
            f"({elsewhere.as_of})"
        )
    return f"no price of {item} is recorded"


def _network(settings: Settings) -> Iterator[Line]:
    stack, network, zones = stack_ids.network(settings), settings.network, len(settings.zones)
    with_endpoints = True
    if isinstance(network, NewNetwork):
        hours = network.nat_gateways * HOURS_PER_MONTH
        count = network.nat_gateways
        yield priced(settings, stack, "nat-gateway", f"NAT gateways: {count}", hours, hours)
        yield priced(settings, stack, "public-ipv4", f"their addresses: {count}", hours, hours)
        yield priced(settings, stack, "nat-gateway-data", "data through NAT", None, None)
        yield priced(settings, stack, "logs-ingested", "flow logs", None, None)
    else:
        with_endpoints, zones = network.endpoints, len(network.subnets)
    if with_endpoints:
        hours = INTERFACE_ENDPOINTS * zones * HOURS_PER_MONTH
        what = f"interface endpoints: {INTERFACE_ENDPOINTS} in {zones} zones"
        yield priced(settings, stack, "interface-endpoint", what, hours, hours)
        data = "data through endpoints"
        yield priced(settings, stack, "interface-endpoint-data", data, None, None)


def _data(settings: Settings) -> Iterator[Line]:
    stack = stack_ids.data(settings)
    yield priced(settings, stack, "kms-key", "KMS key of data", 1, 1)
    for what in ("weights", "graph store", "access logs"):
        yield priced(settings, stack, "s3-standard", what, None, None)
    yield priced(settings, stack, "ecr-storage", "images", None, None)


def _build(settings: Settings) -> Iterator[Line]:
    why = "CodeBuild, by the minute of a build"
    yield by_use(settings, stack_ids.build(settings), "image builds", "minute", why)


def _cluster(settings: Settings) -> Iterator[Line]:
    cluster = settings.cluster
    if not isinstance(cluster, NewCluster):
        return
    stack, nodes = stack_ids.cluster(settings), cluster.system_nodes
    month, idle, most = HOURS_PER_MONTH, nodes.least, nodes.most
    yield priced(settings, stack, "eks-control-plane", "EKS control plane", month, month)
    yield priced(settings, stack, "kms-key", "KMS key of secrets", 1, 1)
    what = f"system nodes: {idle} to {most} {nodes.instance_type}"
    yield priced(settings, stack, nodes.instance_type, what, idle * month, most * month)
    gib = SYSTEM_ROOT_GIB
    yield priced(settings, stack, "ebs-gp3", "their root volumes", idle * gib, most * gib)
    yield priced(settings, stack, "logs-ingested", "control plane logs", None, None)


def _addons(settings: Settings) -> Iterator[Line]:
    why = "SQS and EventBridge, by the request: cents"
    yield by_use(settings, stack_ids.addons(settings), "interruption queue", "request", why)


def _observability(settings: Settings) -> Iterator[Line]:
    stack, count = stack_ids.observability(settings), alarms(settings)
    yield priced(settings, stack, "kms-key", "KMS key of metrics", 1, 1)
    yield priced(settings, stack, "alarm", f"alarms: {count}", count, count)
    why = "Managed Prometheus, by samples taken, queried and kept"
    yield by_use(settings, stack, "Managed Prometheus", "sample", why)
    why = "a managed collector, by the hour and by samples; no price of it is recorded"
    yield by_use(settings, stack, "Prometheus scraper", "hour", why)
    yield priced(settings, stack, "logs-ingested", "logs", None, None)
