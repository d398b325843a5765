"""Whether reservations are as settings say, and what AWS sells where there is none."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from neuronfleet.infra.commands.checks import offers
from neuronfleet.infra.commands.checks.aws import Aws, asked, code_of
from neuronfleet.infra.commands.finding import Finding, fails, fine, unknown
from neuronfleet.infra.settings.model import Block, Pool, Settings
from neuronfleet.infra.settings.rules.blocks import PLACEHOLDER_ID
from neuronfleet.serving.api.variant import CapacityType

_HOLDS = ("active", "scheduled")
_COMES = ("assessing", "delayed", "payment-pending", "pending")
_KINDS = {CapacityType.CAPACITY_BLOCK: "capacity-block", CapacityType.RESERVED: "default"}


def findings(settings: Settings, aws: Aws, now: datetime, hours: int) -> Iterator[Finding]:
    """Each pool's reservation; where a block is missing, those on sale for `hours`."""
    for index, pool in enumerate(settings.pools):
        path = f"pools[{index}].block"
        if pool.block is not None and pool.block.id != PLACEHOLDER_ID:
            question = partial(_reservation, pool, pool.block, path, aws, now)
            yield from asked("reservation", path, question)
        elif pool.capacity is CapacityType.CAPACITY_BLOCK:
            yield from asked("block offer", path, partial(offers.on_sale, pool, aws, now, hours))


def _reservation(pool: Pool, block: Block, path: str, aws: Aws, now: datetime) -> Iterator[Finding]:
    try:
        answer = aws.client("ec2").describe_capacity_reservations(CapacityReservationIds=[block.id])
    except ClientError as wrong:
        if not code_of(wrong).startswith("InvalidCapacityReservationId"):
            raise
        answer = {"CapacityReservations": []}
    if not answer["CapacityReservations"]:
        yield fails("reservation", f"{path}.id", f"= {block.id}, is none of this account's")
        if pool.capacity is CapacityType.CAPACITY_BLOCK:
            yield from offers.on_sale(pool, aws, now, offers.hours_of(block))
        return
    found = answer["CapacityReservations"][0]
    wrong_fields = list(_differences(pool, block, found))
    for name, given, real in wrong_fields:
        yield fails("reservation", f"{path}.{name}", f"= {given}, must be {real}, as reserved")
    if not wrong_fields:
        yield _state(block, path, found)


def _state(block: Block, path: str, found: Mapping[str, Any]) -> Finding:
    state = str(found.get("State"))
    if state in _HOLDS:
        said = f"{block.id}, {state}, {found['TotalInstanceCount']} {found['InstanceType']}"
        return fine("reservation", path, said)
    if state in _COMES:
        return unknown("reservation", path, f"{block.id} is {state}: not yet sure to come")
    return fails("reservation", path, f"{block.id} is {state}; must be active or scheduled")


def _differences(
    pool: Pool, block: Block, found: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Fields in which the settings are not what was reserved."""
    kind = found.get("ReservationType", "default")
    if kind != _KINDS.get(pool.capacity, kind):
        yield "id", f"{block.id} of a {pool.capacity} pool", f"a {_KINDS[pool.capacity]} one"
    pairs: list[tuple[str, object, object]] = [
        ("instanceType", block.instance_type, found.get("InstanceType")),
        ("zone", block.zone, found.get("AvailabilityZoneId")),
        ("count", block.count, found.get("TotalInstanceCount")),
    ]
    if pool.capacity is CapacityType.CAPACITY_BLOCK:
        pairs += [
            ("startsAt", block.starts_at, found.get("StartDate")),
            ("endsAt", block.ends_at, found.get("EndDate")),
        ]
    elif block.ends_at is not None:
        pairs.append(("endsAt", block.ends_at, found.get("EndDate")))
    for name, given, real in pairs:
        if real is not None and given != real:
            yield name, _shown(given), _shown(real)


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
