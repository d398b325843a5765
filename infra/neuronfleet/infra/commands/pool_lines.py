"""What a pool's nodes cost: by the hour that they run, or whether they run or not."""

import math
from collections.abc import Iterator

from neuronfleet.infra.commands import stack_ids
from neuronfleet.infra.commands.bill import HOURS_PER_MONTH, Line
from neuronfleet.infra.commands.lines import priced
from neuronfleet.infra.settings.model import Block, Owner, Pool, Settings
from neuronfleet.serving.api.prices import Price, PriceCatalog
from neuronfleet.serving.api.variant import CapacityType

ALIKE = ("us-east-1", "us-east-2", "us-west-2")
"""Regions for which EC2 lists one on-demand price of inf2 and trn1."""

FREE_MIB_PER_S = 125
"""Throughput that a gp3 volume has for nothing."""
FAST_MIB_PER_S = 500
"""Of root volumes of Karpenter's nodes: images are unpacked there."""


def of_pool(settings: Settings, pool: Pool, catalog: PriceCatalog) -> Iterator[Line]:
    """Lines of one pool."""
    stack = stack_ids.pool(settings, pool)
    usd, source = price(settings.region, pool, catalog)
    idle, most, how = _hours(pool)
    yield Line(
        stack=stack,
        pool=pool.name,
        what=_what(pool),
        unit="hour",
        usd=usd,
        idle=idle,
        most=most,
        source=f"{source}{how}",
    )
    yield from _volumes(settings, stack, pool)


def _volumes(settings: Settings, stack: str, pool: Pool) -> Iterator[Line]:
    """Root volumes, and of Karpenter's nodes the throughput beyond what comes with one."""
    months = min(1.0, (_block_hours(pool.block) or HOURS_PER_MONTH) / HOURS_PER_MONTH)
    idle, most = least(pool) * months, pool.most * months
    what, gib = f"root volumes of {pool.name}", pool.root_gib
    yield priced(settings, stack, "ebs-gp3", what, idle * gib, most * gib, pool=pool.name)
    if pool.owner is Owner.KARPENTER:
        item, what = "ebs-gp3-throughput", f"their throughput: {FAST_MIB_PER_S} MiB/s"
        extra = FAST_MIB_PER_S - FREE_MIB_PER_S
        yield priced(settings, stack, item, what, idle * extra, most * extra, pool=pool.name)


def least(pool: Pool) -> int:
    """Nodes that run whatever happens: Karpenter keeps none."""
    return pool.least if pool.owner is Owner.NODE_GROUP else 0


def price(region: str, pool: Pool, catalog: PriceCatalog) -> tuple[float | None, str]:
    """Dollars an hour of one node and where that is from; None: unknown."""
    if pool.usd_per_hour is not None:
        return pool.usd_per_hour, "usdPerHour of the settings"
    known = _listed(region, pool, catalog)
    if known is None:
        return None, f"no {pool.capacity} price of {pool.instance_type} is known: give usdPerHour"
    where = "" if known.region == region else f", {region} being listed alike"
    return known.usd_per_hour, f"{known.source}, {known.region}{where} ({known.as_of})"


def _listed(region: str, pool: Pool, catalog: PriceCatalog) -> Price | None:
    """The region's own price, else that of a region that is listed alike."""
    bought = pool.capacity
    if bought is CapacityType.RESERVED:
        # A reservation is paid as the instances that it holds would be.
        bought = CapacityType.ON_DEMAND
    listed = bought is CapacityType.ON_DEMAND and region in ALIKE
    for where in (region, *(ALIKE if listed else ())):
        found = catalog.find(pool.instance_type, bought, (where,))
        if found is not None:
            return found
    return None


def _what(pool: Pool) -> str:
    nodes = f"{least(pool)} to {pool.most} {pool.instance_type}, {pool.capacity}"
    if pool.block is None:
        return nodes
    return f"{pool.block.count} {pool.instance_type}, {pool.capacity}"


def _hours(pool: Pool) -> tuple[float, float, str]:
    """Node hours a month, idle and at most, and how they are paid."""
    if pool.block is None:
        return least(pool) * HOURS_PER_MONTH, pool.most * HOURS_PER_MONTH, ""
    hours = _block_hours(pool.block)
    if pool.capacity is not CapacityType.CAPACITY_BLOCK or hours is None:
        held = float(pool.block.count * HOURS_PER_MONTH)
        return held, held, "; a reservation is paid for whether nodes run or not"
    held = pool.block.count * min(hours, HOURS_PER_MONTH)
    return held, held, f"; paid up front for {math.ceil(hours)} h, whether nodes run or not"


def _block_hours(block: Block | None) -> float | None:
    if block is None or block.starts_at is None or block.ends_at is None:
        return None
    return (block.ends_at - block.starts_at).total_seconds() / 3600
