"""Prices: one dated JSON catalog a file, never overwritten. An unknown price is None, never 0."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from pathlib import Path

from neuronfleet.serving.api.problems import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one instance costs an hour, on one market."""

    instance_type: str
    capacity_type: str
    region: str
    """An AWS region, or the provider's name for what is not on AWS."""
    usd_per_hour: float
    source: str
    as_of: date


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCatalog:
    """All prices known on one day."""

    dated: date
    prices: tuple[Price, ...]

    def find(
        self, instance_type: str, capacity_type: str, regions: Sequence[str] = ()
    ) -> Price | None:
        """The newest price of this market, within `regions` where any are named.

        Of equally new ones, the lowest: nothing ties a plan to a dearer region.
        """
        known = [
            price
            for price in self.prices
            if price.instance_type == instance_type
            and price.capacity_type == capacity_type
            and (not regions or price.region in regions)
        ]
        return min(known, key=lambda p: (-p.as_of.toordinal(), p.usd_per_hour), default=None)


def parse(text: str, source: str) -> PriceCatalog:
    """A catalog from its JSON.

    Raises:
        SpecError: it is not JSON, or an entry lacks a field or has a price that is not positive.
    """
    try:
        document = json.loads(text)
        prices = tuple(
            Price(**{**row, "as_of": date.fromisoformat(row["as_of"])})
            for row in document["prices"]
        )
        dated = date.fromisoformat(document["date"])
    except (ValueError, TypeError, KeyError) as wrong:
        raise SpecError(f"{source}: {wrong}, must be a price catalog") from wrong
    for price in prices:
        if price.usd_per_hour <= 0:
            raise SpecError(
                f"{source}: usd_per_hour of {price.instance_type} = {price.usd_per_hour}, "
                "must be above 0; leave out what is unknown"
            )
    return PriceCatalog(dated=dated, prices=prices)


def from_file(path: Path) -> PriceCatalog:
    """The catalog in a file."""
    try:
        return parse(path.read_text(), str(path))
    except OSError as wrong:
        raise SpecError(f"{path}: {wrong.strerror}, must be a readable price catalog") from wrong


@cache
def newest() -> PriceCatalog:
    """The newest catalog that the product carries."""
    folder = resources.files(__package__).joinpath("prices")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return parse(files[-1].read_text(), files[-1].name)
