"""List prices of what is not a Neuron node: one dated table. What it lacks is unknown, never 0."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

EVERYWHERE = "*"
"""Stands for the commercial regions where AWS lists one price for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What one unit of a service costs."""

    item: str
    unit: str
    """hour, month, GB, GB-month or GiB-month."""
    usd: float
    regions: tuple[str, ...]
    source: str
    as_of: date


@cache
def dated() -> date:
    """The day of the table."""
    return date.fromisoformat(_document()["date"])


@cache
def table() -> tuple[Tariff, ...]:
    """Every price known."""
    return tuple(
        Tariff(
            item=row["item"],
            unit=row["unit"],
            usd=row["usd"],
            regions=tuple(row["regions"]),
            source=row["source"],
            as_of=date.fromisoformat(row["as_of"]),
        )
        for row in _document()["prices"]
    )


def find(item: str, region: str) -> Tariff | None:
    """The price of an item in a region; None where it is unknown there."""
    known = (one for one in table() if one.item == item)
    return next((one for one in known if {region, EVERYWHERE} & set(one.regions)), None)


def _document() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("tariff.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found
