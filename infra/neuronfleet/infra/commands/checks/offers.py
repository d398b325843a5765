"""Capacity blocks on sale, with their price: searched, never bought."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from neuronfleet.infra.commands.checks.aws import Aws, pages
from neuronfleet.infra.commands.checks.network import zone_ids
from neuronfleet.infra.commands.finding import Finding, fails, note
from neuronfleet.infra.settings.model import Block, Pool

DAY_HOURS = 24
WEEK_HOURS = 168
MOST_BY_DAY = 14
"""Days that are sold one by one; a longer block is whole weeks (EC2 User Guide, Capacity
Blocks)."""
_AHEAD = timedelta(weeks=8)
"""How far ahead a block may start (EC2 User Guide, Capacity Blocks)."""
_SHOWN = 3


def hours_of(block: Block) -> int:
    """The shortest length on sale that covers a block; a week where its days are not given."""
    if block.starts_at is None or block.ends_at is None:
        return WEEK_HOURS
    return sold_hours((block.ends_at - block.starts_at).total_seconds() / 3600)


def sold_hours(hours: float) -> int:
    """The shortest length on sale that covers so many hours: days to 14, then weeks."""
    days = max(1, math.ceil(hours / DAY_HOURS))
    if days > MOST_BY_DAY:
        return math.ceil(days / 7) * WEEK_HOURS
    return days * DAY_HOURS


def on_sale(pool: Pool, aws: Aws, now: datetime, hours: int) -> Iterator[Finding]:
    """The cheapest offers of the pool's type for `hours`, each with its price of a node hour."""
    count = pool.block.count if pool.block else pool.most
    names = zone_ids(aws)
    found = pages(
        aws.client("ec2"),
        "describe_capacity_block_offerings",
        "CapacityBlockOfferings",
        InstanceType=pool.instance_type,
        InstanceCount=count,
        CapacityDurationHours=hours,
        StartDateRange=now,
        EndDateRange=now + _AHEAD + timedelta(hours=hours),
    )
    wanted = f"{count} {pool.instance_type} for {hours} h"
    if not found:
        yield fails("block offer", pool.name, f"no block of {wanted} is on sale in 8 weeks")
        return
    for offer in sorted(found, key=lambda one: (_fee(one), one["StartDate"]))[:_SHOWN]:
        yield note("block offer", pool.name, _said(offer, count, names))


def _said(offer: Mapping[str, Any], count: int, names: Mapping[str, str]) -> str:
    """One offer in the words of the settings: zone ID, start, end, price of a node hour."""
    hours = (offer["EndDate"] - offer["StartDate"]).total_seconds() / 3600
    zone = names.get(offer["AvailabilityZone"], offer["AvailabilityZone"])
    each = _fee(offer) / (count * hours)
    return (
        f"{offer['CapacityBlockOfferingId']}: {count} in {zone}, "
        f"{offer['StartDate']:%Y-%m-%dT%H:%MZ} to {offer['EndDate']:%Y-%m-%dT%H:%MZ}, "
        f"${_fee(offer):,.2f} up front, usdPerHour {each:.2f}"
    )


def _fee(offer: Mapping[str, Any]) -> float:
    return float(offer["UpfrontFee"])
