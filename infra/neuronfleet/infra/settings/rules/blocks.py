"""Reservations: what a pool is launched into, and whether its days leave room for its lifecycle."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from neuronfleet.infra.settings.model import Block, Pool, Settings
from neuronfleet.serving.api.problems import Problem
from neuronfleet.serving.api.variant import CapacityType

LEAD = timedelta(minutes=40)
"""Nodes are gone this long before a block ends: EC2 takes them 30 minutes before it and says so 10
minutes earlier (EC2 User Guide, Capacity Blocks)."""
ULTRASERVER_LEAD = timedelta(minutes=70)
"""The same where EC2 takes them 60 minutes before the end."""
ULTRASERVER_FAMILY = "trn2u"
PLACEHOLDER_ID = "cr-00000000000000000"
"""What `infra init` writes before anything is reserved."""
_INTO = (CapacityType.CAPACITY_BLOCK, CapacityType.RESERVED)


def lead(block: Block) -> timedelta:
    """How long before a block's end its nodes must be gone."""
    return ULTRASERVER_LEAD if block.ultraserver else LEAD


def problems(settings: Settings, now: datetime) -> Iterator[Problem]:
    """What is wrong with reservations and the pools launched into them."""
    owners: dict[str, str] = {}
    for index, pool in enumerate(settings.pools):
        path = f"pools[{index}]"
        yield from _presence(pool, path)
        if pool.block is None or pool.capacity not in _INTO:
            continue
        if pool.block.id == PLACEHOLDER_ID:
            allowed = "must be the ID of what was reserved, with its zone, count and times"
            yield Problem(path=f"{path}.block.id", value=pool.block.id, allowed=allowed)
            continue
        yield from _agreement(pool, pool.block, path)
        yield from _days(pool, pool.block, path, now)
        if pool.block.id in owners:
            allowed = f"is that of {owners[pool.block.id]}; must be another reservation"
            yield Problem(path=f"{path}.block.id", value=pool.block.id, allowed=allowed)
        owners.setdefault(pool.block.id, path)


def _presence(pool: Pool, path: str) -> Iterator[Problem]:
    if pool.block is None and pool.capacity in _INTO:
        days = "startsAt, endsAt, " if pool.capacity is CapacityType.CAPACITY_BLOCK else ""
        allowed = f"must be given with id, instanceType, zone, {days}count: it is {pool.capacity}"
        yield Problem(path=f"{path}.block", value="nothing", allowed=allowed)
    if pool.block is not None and pool.capacity not in _INTO:
        allowed = (
            f"must be left out of a pool that is {pool.capacity}, or capacity must be "
            "capacity-block or reserved"
        )
        yield Problem(path=f"{path}.block", value=pool.block.id, allowed=allowed)


def _agreement(pool: Pool, block: Block, path: str) -> Iterator[Problem]:
    if block.instance_type != pool.instance_type:
        allowed = f"must be the pool's instanceType = {pool.instance_type}"
        yield Problem(path=f"{path}.block.instanceType", value=block.instance_type, allowed=allowed)
    if len(pool.zones) == 1 and block.zone != pool.zones[0]:
        allowed = f"must be the pool's zone = {pool.zones[0]}"
        yield Problem(path=f"{path}.block.zone", value=block.zone, allowed=allowed)
    if pool.most > block.count:
        allowed = f"must be at most block.count = {block.count}, what the reservation holds"
        yield Problem(path=f"{path}.most", value=pool.most, allowed=allowed)
    if block.ultraserver and not pool.instance_type.startswith(ULTRASERVER_FAMILY):
        allowed = f"must be false: only {ULTRASERVER_FAMILY} instances are UltraServers"
        yield Problem(path=f"{path}.block.ultraserver", value="true", allowed=allowed)
    if pool.capacity is CapacityType.CAPACITY_BLOCK and 0 < pool.least <= pool.most:
        allowed = "must be 0: a block's nodes come at its start and go before its end"
        yield Problem(path=f"{path}.least", value=pool.least, allowed=allowed)


def _days(pool: Pool, block: Block, path: str, now: datetime) -> Iterator[Problem]:
    """The first thing wrong with start and end, in the order in which they are read."""
    is_block = pool.capacity is CapacityType.CAPACITY_BLOCK
    missing = [
        name
        for name, moment in (("startsAt", block.starts_at), ("endsAt", block.ends_at))
        if is_block and moment is None
    ]
    for name in missing:
        allowed = "must be the block's time, as 2027-03-01T11:30:00Z"
        yield Problem(path=f"{path}.block.{name}", value="nothing", allowed=allowed)
    if block.ends_at is None:
        return
    wrong = _end_problem(block, block.ends_at, now)
    if wrong:
        value = block.ends_at.isoformat()
        yield Problem(path=f"{path}.block.endsAt", value=value, allowed=wrong)


def _end_problem(block: Block, ends_at: datetime, now: datetime) -> str | None:
    before = lead(block)
    minutes = int(before.total_seconds() / 60)
    if ends_at <= now:
        return f"is past, it is {now.isoformat()}; must be a running one's, or the pool must go"
    if block.starts_at is not None and ends_at <= block.starts_at:
        return f"must be after startsAt = {block.starts_at.isoformat()}"
    if block.starts_at is not None and ends_at - before <= block.starts_at:
        return (
            f"must be more than {minutes} minutes after startsAt = "
            f"{block.starts_at.isoformat()}: nodes go that long before the end"
        )
    if ends_at - before <= now:
        return f"must be more than {minutes} minutes ahead: nodes go that long before the end"
    return None
