"""Which zone offers which instance type, and what of a type its nodes are built from.

Recorded facts (offers.json, written by tools/build_offers.py); `infra preflight` asks AWS itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FILE = "offers.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One instance type as EC2 offers it."""

    name: str
    vcpus: int
    """What quotas count."""
    network_cards: int
    interfaces: int
    """Network interfaces over all cards."""
    efa_interfaces: int
    """0: the type has no EFA."""
    store_disks: int
    """Local NVMe disks; 0: none to make an array of."""
    store_gb: int
    """Of all local disks together, 1e9 bytes."""
    uses: tuple[str, ...]
    """How it is sold: on-demand, spot, capacity-block."""
    zones: Mapping[str, tuple[str, ...]]
    """Zone IDs that offer it, by region."""

    @property
    def family(self) -> str:
        """What stands before the dot, as trn2u."""
        return self.name.partition(".")[0]

    @property
    def is_neuron(self) -> bool:
        """Whether it carries Neuron devices."""
        return self.family.startswith(("inf", "trn"))


def all_types() -> Mapping[str, Offer]:
    """Every recorded type by name."""
    return _types()


def neuron_types() -> tuple[str, ...]:
    """Names of the types that carry Neuron devices."""
    return tuple(name for name, offer in _types().items() if offer.is_neuron)


def find(name: str) -> Offer | None:
    """One type; None where it is not recorded."""
    return _types().get(name)


def regions() -> Mapping[str, tuple[str, ...]]:
    """Zone IDs of each recorded region."""
    return {region: tuple(zones) for region, zones in _document()["regions"].items()}


def dump(document: Mapping[str, Any]) -> str:
    """The file's text: a region or a type a line, so that a difference is read at a glance."""
    lines = [f' "source": {json.dumps(document["source"])},', ' "regions": {']
    rows = [f"  {json.dumps(name)}: {json.dumps(z)}" for name, z in document["regions"].items()]
    lines += [",\n".join(rows), " },", ' "types": [']
    lines += [",\n".join(f"  {json.dumps(row)}" for row in document["types"]), " ]"]
    return "\n".join(["{", *lines, "}", ""])


@cache
def _types() -> Mapping[str, Offer]:
    known = {}
    for row in _document()["types"]:
        facts = {key: value for key, value in row.items() if not key.endswith("source")}
        facts["uses"] = tuple(facts["uses"])
        facts["zones"] = {region: tuple(zones) for region, zones in facts["zones"].items()}
        known[row["name"]] = Offer(**facts)
    return known


@cache
def _document() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    )
    return found
