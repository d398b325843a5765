"""Prometheus text of several HAProxys as one: each family once, each series once."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})? (\S+)")
Labels = dict[str, str]
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of one process, and what of it counts."""

    text: str
    keep: Callable[[str, Labels], bool]
    """Of a family's name and a sample's labels."""
    counters: bool = True
    """False for a process that leaves: its counters would make those of its successor fall."""


@dataclass(slots=True)
class _Family:
    head: list[str]
    kind: str
    series: dict[str, float] = field(default_factory=dict)


def merged(sources: Iterable[Source]) -> str:
    """One valid exposition; gauges with the same labels are added up."""
    families: dict[str, _Family] = {}
    for source in sources:
        head: list[str] = []
        for line in source.text.splitlines():
            if line.startswith("#"):
                head.append(line)
                continue
            found = _SAMPLE.fullmatch(line)
            if not found:
                continue
            name, labels = found[1], found[2] or ""
            kind = _kind(head, name) or families.get(name, _Family([], "")).kind
            if source.keep(name, dict(_LABEL.findall(labels))) and (
                source.counters or kind != "counter"
            ):
                family = families.setdefault(name, _Family(_head(head, name), kind))
                family.series[labels] = family.series.get(labels, 0.0) + float(found[3])
    lines: list[str] = []
    for name, family in families.items():
        lines += family.head
        lines += [f"{name}{labels} {_number(v)}" for labels, v in family.series.items()]
    return "\n".join(lines) + "\n" if lines else ""


def _head(head: Iterable[str], name: str) -> list[str]:
    return [line for line in head if line.split(" ", 3)[2:3] == [name]]


def _kind(head: Iterable[str], name: str) -> str:
    for line in head:
        if line.startswith(f"# TYPE {name} "):
            return line.rsplit(" ", 1)[1]
    return ""


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if value.is_integer() else repr(value)
