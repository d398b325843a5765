"""Which versions of SDK, driver and AMI run together: checked before a pod is created.

What is written in no release note is unknown: it is no clash, and `unknowns` says so.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from neuronfleet.serving.api.variant import Variant

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
_AMI_DATE = re.compile(r"(?:^|[^a-z0-9])v?(20[0-9]{6})(?:$|[^0-9])")
_BOUNDS = {"atLeast": "at least", "atMost": "at most", "below": "below"}
_SHOWN = {"sdk": "SDK", "driver": "driver", "ami": "AMI"}
_SDK_BOUNDS = (("sdkAtLeast", "atLeast"), ("sdkBelow", "below"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node says of itself. None is unknown."""

    name: str
    sdk: str | None = None
    """The SDK that its driver belongs to, not that of the images it runs."""
    driver: str | None = None
    ami: str | None = None
    instance_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinClash:
    """Two things that do not run together."""

    variant: str
    what: str
    """The pair, as `pins SDK 2.30 on inf2.xlarge with backend generation 1`."""
    allowed: str
    source: str

    def __str__(self) -> str:
        return f"variant {self.variant} {self.what}, {self.allowed} ({self.source})"


@dataclass(frozen=True, slots=True)
class _Pair:
    """One known value that the rules are asked about, and how to name it."""

    about: str
    value: str
    what: str


def check(variant: Variant, nodes: Sequence[NodeFacts]) -> list[PinClash]:
    """Every pair that is known not to work, over the variant and the nodes of its instance type.

    A node whose instance type is unknown counts: it might get the replica.
    """
    found: list[PinClash] = []
    for pair in _pairs(variant, nodes):
        found += _by_rules(variant, pair)
    for node in _candidates(variant, nodes):
        found += _by_pins(variant, node)
    return list(dict.fromkeys(found))


def unknowns(variant: Variant, nodes: Sequence[NodeFacts]) -> list[str]:
    """What could not be checked, a sentence each."""
    if variant.generation is None:
        return []
    if variant.pins.sdk is None:
        return [f"variant {variant.name} pins no SDK: nothing of its image could be checked"]
    found = []
    for pair in _pairs(variant, nodes):
        clash = pair.about == "sdk" or _by_rules(variant, pair)
        if not clash and not _known_good(variant.pins.sdk, pair):
            found.append(
                f"variant {variant.name} {pair.what}: no release note tells whether it runs"
            )
    for node in _candidates(variant, nodes):
        known = {"driver": _driver(node)[0], "AMI": node.ami}
        missing = [name for name, value in known.items() if value is None]
        if missing:
            found.append(f"node {node.name} does not say its {' and '.join(missing)}")
    return list(dict.fromkeys(found))


def _candidates(variant: Variant, nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    if variant.generation is None:
        return []
    return [node for node in nodes if node.instance_type in (None, variant.instance.name)]


def _pairs(variant: Variant, nodes: Sequence[NodeFacts]) -> Iterator[_Pair]:
    """What the rules can be asked: the SDK with the chip, then driver and AMI with the SDK."""
    pins = variant.pins
    if variant.generation is None:
        return
    if pins.sdk is not None:
        chip = f"on {variant.instance.name} with backend generation {variant.generation}"
        yield _Pair("sdk", pins.sdk, f"pins SDK {pins.sdk} {chip}")
    for about, value in (("driver", pins.driver), ("ami", pins.ami)):
        if value is not None and pins.sdk is not None:
            yield _Pair(about, value, f"pins SDK {pins.sdk} with {_SHOWN[about]} {value}")
    for node in _candidates(variant, nodes):
        driver, how = _driver(node)
        for about, value, shown in (("driver", driver, how), ("ami", node.ami, "")):
            if value is not None and pins.sdk is not None:
                where = f"{_SHOWN[about]} {value} of node {node.name}{shown}"
                yield _Pair(about, value, f"pins SDK {pins.sdk} with {where}")


def _driver(node: NodeFacts) -> tuple[str | None, str]:
    """A node's driver, from its SDK where it says no more, and how that is known."""
    if node.driver is None and node.sdk is not None:
        for row in _data()["good"]:
            if _same("sdk", row["sdk"], node.sdk):
                return row["driver"], f" (by its SDK {node.sdk})"
    return node.driver, ""


def _by_rules(variant: Variant, pair: _Pair) -> list[PinClash]:
    found = []
    for rule in _data()["rules"]:
        if rule["about"] != pair.about or not _applies(rule["when"], variant):
            continue
        bound = next(name for name in _BOUNDS if name in rule)
        if _within(pair.about, pair.value, bound, rule[bound]) is False:
            found.append(
                PinClash(
                    variant=variant.name,
                    what=pair.what,
                    allowed=f"must be {_BOUNDS[bound]} {rule[bound]}",
                    source=rule["source"],
                )
            )
    return found


def _applies(when: Mapping[str, Any], variant: Variant) -> bool:
    """Whether a rule is about this variant; one about an SDK needs the SDK to be known."""
    if when.get("generation", variant.generation) != variant.generation:
        return False
    if variant.instance.family not in when.get("families", (variant.instance.family,)):
        return False
    bounds = [(bound, when[key]) for key, bound in _SDK_BOUNDS if key in when]
    sdk = variant.pins.sdk
    return not bounds or (
        sdk is not None
        and all(_within("sdk", sdk, bound, limit) is True for bound, limit in bounds)
    )


def _by_pins(variant: Variant, node: NodeFacts) -> list[PinClash]:
    """A node that is not what the variant pins."""
    found = []
    for about in ("driver", "ami"):
        pinned, has = getattr(variant.pins, about), getattr(node, about)
        if pinned is None or has is None or _same(about, pinned, has):
            continue
        shown = _SHOWN[about]
        found.append(
            PinClash(
                variant=variant.name,
                what=f"pins {shown} {pinned}, node {node.name} has {has}",
                allowed=f"must be {pinned}",
                source="the variant's own pins",
            )
        )
    return found


def _same(about: str, pinned: str, has: str) -> bool:
    """Equal, or of the pinned version: 2.28 holds 2.28.1."""
    if pinned == has:
        return True
    wanted, given = _parts(about, pinned), _parts(about, has)
    return bool(wanted) and given[: len(wanted)] == wanted


def _within(about: str, value: str, bound: str, limit: str) -> bool | None:
    """Whether a version keeps a bound, compared as finely as the bound is; None is unreadable."""
    end = _parts(about, limit)
    given = _parts(about, value)[: len(end)]
    if len(given) < len(end):
        return None
    if bound == "atMost":
        return given <= end
    return given >= end if bound == "atLeast" else given < end


def _parts(about: str, text: str) -> tuple[int, ...]:
    """Numbers of a version, or the date of an AMI release; empty where it is neither."""
    if about == "ami":
        date = _AMI_DATE.search(text)
        return (int(date.group(1)),) if date else ()
    plain = text.removeprefix("v")
    return tuple(map(int, plain.split("."))) if _VERSION.fullmatch(plain) else ()


def _known_good(sdk: str, pair: _Pair) -> bool:
    for row in _data()["good"]:
        if not _same("sdk", row["sdk"], sdk):
            continue
        if pair.about == "driver":
            return _same("driver", row["driver"], pair.value)
        if row["ami"] is not None:
            first, last = row["ami"]
            since = _within("ami", pair.value, "atLeast", first)
            return bool(since and _within("ami", pair.value, "atMost", last))
    return False


@cache
def _data() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("pins.json").read_text()
    found: Mapping[str, Any] = json.loads(text)
    return found
