"""What a node costs an hour, asked of AWS: worth knowing, and no deployment depends on it."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from neuronfleet.infra.commands.checks.aws import Aws, asked, pages
from neuronfleet.infra.commands.checks.network import zone_ids
from neuronfleet.infra.commands.finding import Finding, Verdict, note
from neuronfleet.infra.settings.model import Pool, Settings
from neuronfleet.serving.api.variant import CapacityType

HOME = "us-east-1"
"""Where the Price List API answers for every region."""
_LINUX = "Linux/UNIX"


def findings(settings: Settings, aws: Aws, now: datetime) -> Iterator[Finding]:
    """The list price of on-demand pools, the price of the moment of spot ones."""
    for index, pool in enumerate(settings.pools):
        path = f"pools[{index}]"
        question = partial(_price, settings.region, pool, path, aws, now)
        for one in asked("price", path, question):
            unknown = one.verdict is Verdict.UNKNOWN
            yield note("price", path, f"unknown: {one.said}") if unknown else one


def _price(region: str, pool: Pool, path: str, aws: Aws, now: datetime) -> Iterator[Finding]:
    if pool.capacity is CapacityType.CAPACITY_BLOCK:
        return
    if pool.capacity is CapacityType.SPOT:
        yield note("price", path, _spot(pool, aws, now))
        return
    usd = _listed(region, pool.instance_type, aws)
    if usd is None:
        said = f"{pool.instance_type} has no on-demand price in {region}"
    else:
        said = f"{pool.instance_type} ${usd:g} an hour on demand in {region}"
    yield note("price", path, said)


def _spot(pool: Pool, aws: Aws, now: datetime) -> str:
    """By zone ID, the dearest last: Karpenter takes the cheapest that it gets."""
    names = zone_ids(aws)
    rows = pages(
        aws.client("ec2"),
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=[pool.instance_type],
        ProductDescriptions=[_LINUX],
        StartTime=now,
    )
    found = {names.get(row["AvailabilityZone"], ""): float(row["SpotPrice"]) for row in rows}
    here = sorted((usd, zone) for zone, usd in found.items() if zone in pool.zones)
    if not here:
        return f"{pool.instance_type} has no spot price in {', '.join(pool.zones)}"
    each = ", ".join(f"${usd:g} in {zone}" for usd, zone in here)
    return f"{pool.instance_type} spot at this moment: {each}"


def _listed(region: str, instance_type: str, aws: Aws) -> float | None:
    """Dollars an hour of a shared Linux instance; None where AWS lists none."""
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    answer = aws.client("pricing").get_products(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()],
    )
    found = [usd for text in answer["PriceList"] for usd in _hourly(json.loads(text))]
    return max(found, default=None)


def _hourly(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            # Capacity that is reserved elsewhere is listed at nothing.
            if dimension["unit"] == "Hrs" and usd > 0:
                yield usd
