"""What the parser asks of a spec: every field with its type, range, pattern and choices.

The schema is made of this record, so that it and the parser cannot drift apart. The parser
branches on what a document holds, so it is run on an empty document many times, each time told
that other fields are there or hold another of their choices.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from neuronfleet.serving.api.fields import DURATION, MOMENT, TEXT_MOST, Fields
from neuronfleet.serving.api.problems import Problem

Assumption = tuple[frozenset[str], tuple[tuple[str, Any], ...]]
"""Fields that are there, and fields with what they hold."""
_FEW = 4
_ASCENDING = "self.isSorted() && self.all(one, self.exists_one(other, other == one))"
# A CEL error (the text is no RE2) refuses the object, whatever the answer would be.
_REGEX = {
    "rule": "''.matches(self) ? true : true",
    "message": "must be a regular expression of RE2",
}


@dataclass(slots=True, kw_only=True)
class Reading:
    """One field, as the parser asked for it over all walks."""

    schema: dict[str, Any]
    defaults: list[Any] = field(default_factory=list)
    """Default of every time it was read; None where there was none."""
    missed: list[bool] = field(default_factory=list)
    """Whether its absence was a problem, of every walk that was not told that it is there."""

    @property
    def required(self) -> bool:
        """Whether the parser refuses a document without it."""
        return bool(self.missed) and all(self.missed)

    @property
    def default(self) -> Any:
        """The default that is the same whatever else the document holds, else None.

        One outside the field's own range stands for absence, so it is none either.
        """
        first = self.defaults[0]
        if first is None or any(other != first for other in self.defaults):
            return None
        if "enum" in self.schema:
            return first if first in self.schema["enum"] else None
        low, high = self.schema.get("minimum", first), self.schema.get("maximum", first)
        return first if first != "" and low <= first <= high else None

    def merge(self, schema: Mapping[str, Any]) -> None:
        """Widen the range by another reading of the same field.

        Raises:
            TypeError: the two readings are of different types.
        """
        for key, value in schema.items():
            known = self.schema.setdefault(key, value)
            if key == "minimum":
                self.schema[key] = min(known, value)
            elif key == "maximum":
                self.schema[key] = max(known, value)
            elif known != value:
                raise TypeError(f"{key} = {value}, must be {known} as in the other reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One run of the parser: what it is told, and what it asked for."""

    readings: dict[str, Reading]
    """By path, as `spec.variants[].name`; shared by all walks."""
    told: frozenset[str]
    """Fields that it is told are there; `path[]` is a list of one item."""
    chosen: Mapping[str, Any]
    """What fields hold that it is told of."""
    problems: list[Problem] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)

    def finish(self) -> None:
        """Note for each field whose presence was left open whether its absence was a problem."""
        missing = {one.path for one in self.problems if one.value == "nothing"}
        given = self.told | set(self.chosen)
        for path in self.taken:
            if not any(_within(one, path) for one in given):
                self.readings[path].missed.append(any(_within(one, path) for one in missing))


class Recorder(Fields):
    """Fields of an empty document that note what is asked of them."""

    def __init__(self, walk: Walk, path: str) -> None:
        super().__init__({}, path, walk.problems)
        self._walk = walk

    def __contains__(self, name: str) -> bool:
        path = self._at(name)
        self._walk.asked.add(path)
        return path in self._walk.told

    def text(
        self,
        name: str,
        default: str | None = None,
        *,
        pattern: str | None = None,
        most: int = TEXT_MOST,
    ) -> str:
        """A string."""
        shape = f"^({pattern})$" if pattern else r"\S"
        self._note(name, {"type": "string", "pattern": shape, "maxLength": most}, default)
        return super().text(name, default, pattern=pattern, most=most)

    def regex(self, name: str, *, most: int = 256) -> str | None:
        """A regular expression."""
        text = super().regex(name, most=most)
        self._walk.readings[self._at(name)].merge({"x-kubernetes-validations": [_REGEX]})
        return text

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of `choices`."""
        plain = [str(one) for one in choices]
        self._note(name, {"type": "string", "enum": plain}, default and str(default))
        return super().choice(name, choices, default)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number."""
        self._note(name, {"type": "integer", "minimum": low, "maximum": high}, default)
        return super().integer(name, low, high, default)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A number."""
        self._note(name, {"type": "number", "minimum": low, "maximum": high}, default)
        return super().number(name, low, high, default)

    def seconds(self, name: str, low: float, high: float, default: float) -> float:
        """A duration: a string, since a field of a Kubernetes schema has one type."""
        rule = {
            "rule": f"duration(self) >= duration('{low:g}s') && "
            f"duration(self) <= duration('{high:g}s')",
            "message": f"must be a duration in [{low:g}s, {high:g}s], as 90s, 15m or 1h30m",
        }
        schema = {
            "type": "string",
            "pattern": f"^{DURATION}$",
            "maxLength": 32,
            "x-kubernetes-validations": [rule],
        }
        self._note(name, schema, f"{default:g}s" if low <= default <= high else None)
        return super().seconds(name, low, high, default)

    def moment(self, name: str) -> Any:
        """A time with its zone.

        Not `format: date-time`: an API server takes an empty list for one (seen on 1.35.4).
        """
        rule = {
            "rule": "timestamp(self) == timestamp(self)",
            "message": "must be a time with zone, as 2026-12-01T11:30:00Z",
        }
        schema = {"type": "string", "pattern": f"^{MOMENT}$", "maxLength": 64}
        self._note(name, schema | {"x-kubernetes-validations": [rule]})
        return super().moment(name)

    def strings(self, name: str, *, most: int = 64) -> tuple[str, ...]:
        """A list of strings."""
        items = {"type": "string", "maxLength": TEXT_MOST}
        self._note(name, {"type": "array", "maxItems": most, "items": items})
        return super().strings(name, most=most)

    def integers(self, name: str, low: int, high: int, *, most: int = 64) -> tuple[int, ...]:
        """A list of ascending whole numbers."""
        items = {"type": "integer", "minimum": low, "maximum": high}
        rule = {
            "rule": _ASCENDING,
            "message": f"must be ascending whole numbers in [{low}, {high}], at most {most}",
        }
        schema = {"type": "array", "maxItems": most, "items": items}
        self._note(name, schema | {"x-kubernetes-validations": [rule]})
        return super().integers(name, low, high, most=most)

    def pairs(self, name: str, *, most: int = 64) -> tuple[tuple[str, str], ...]:
        """A mapping of strings."""
        values = {"type": "string", "maxLength": TEXT_MOST}
        schema = {"type": "object", "maxProperties": most, "additionalProperties": values}
        self._note(name, schema)
        return super().pairs(name, most=most)

    def free(self, name: str) -> dict[str, Any]:
        """A mapping of anything."""
        self._note(name, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        return super().free(name)

    def section(self, name: str) -> Fields:
        """A nested mapping."""
        self._note(name, {"type": "object"})
        return super().section(name)

    def items(self, name: str, *, most: int = 1000) -> list[Fields]:
        """The mappings of a list: one where the walk says that it holds any."""
        self._note(name, {"type": "array", "maxItems": most})
        path = f"{self._at(name)}[]"
        self._walk.asked.add(path)
        super().items(name, most=most)
        return [Recorder(self._walk, path)] if path in self._walk.told else []

    def _note(self, name: str, schema: dict[str, Any], default: Any = None) -> None:
        path = self._at(name)
        reading = self._walk.readings.setdefault(path, Reading(schema=dict(schema)))
        reading.merge(schema)
        reading.defaults.append(default)
        self._walk.taken.add(path)

    def _take(self, name: str) -> Any:
        super()._take(name)
        return self._walk.chosen.get(self._at(name))

    def _inner(self, value: object, path: str) -> Fields:
        return Recorder(self._walk, path)


def record(read: Callable[[Fields], object], root: str) -> dict[str, Reading]:
    """Everything that `read` asks of a document, by path from `root`.

    It is run with nothing there, with each field that it tests for there, with all of them there,
    and with each choice of each field and of each two of one mapping; then again for every field
    or choice that so came to light.
    """
    readings: dict[str, Reading] = {}
    asked: set[str] = set()
    done: set[Assumption] = set()
    while todo := [one for one in _assumptions(readings, asked) if one not in done]:
        for told, chosen in todo:
            walk = Walk(readings=readings, told=told, chosen=dict(chosen))
            read(Recorder(walk, root))
            walk.finish()
            asked |= walk.asked
            done.add((told, chosen))
    return readings


def _assumptions(readings: Mapping[str, Reading], asked: Iterable[str]) -> list[Assumption]:
    """What the next walks are told: which fields are there, and what narrow ones hold."""
    everything = frozenset(asked)
    there = [_around(path, everything) | {path} for path in sorted(everything)]
    told: list[Assumption] = [(one, ()) for one in [frozenset(), *there, everything]]
    narrow = [(path, one) for path, read in readings.items() for one in _choices(read)]
    told += [(_around(choice[0], everything), (choice,)) for choice in narrow]
    told += [(everything, (choice,)) for choice in narrow]
    # A range may hang on two at once: cores on the instance type and the logical core size.
    told += [
        (everything, pair)
        for pair in combinations(narrow, 2)
        if pair[0][0] != pair[1][0] and _parent(pair[0][0]) == _parent(pair[1][0])
    ]
    return told


def _choices(reading: Reading) -> Sequence[Any]:
    """All that a field may hold, of one that may hold only a few."""
    low, high = reading.schema.get("minimum", 0), reading.schema.get("maximum", _FEW)
    if reading.schema["type"] == "integer" and high - low < _FEW:
        return range(low, high + 1)
    few: Sequence[str] = reading.schema.get("enum", ())
    return few


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _around(path: str, asked: Iterable[str]) -> frozenset[str]:
    """What must be there for `path` to be."""
    return frozenset(one for one in asked if one != path and _within(path, one))


def _within(path: str, outer: str) -> bool:
    """Whether `path` is `outer` or lies in it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
