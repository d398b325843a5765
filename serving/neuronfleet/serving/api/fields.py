"""Read the fields of a document, noting every problem instead of stopping at the first."""

import re
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from neuronfleet.serving.api.problems import Problem

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Fields:
    """One mapping of a document: its known fields are asked for, the rest are problems.

    Every reader returns its default (or a harmless stand-in) where the value is wrong, so that
    parsing goes on; whoever owns `problems` must look at it before using what was read.
    """

    def __init__(self, value: object, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._asked: list[str] = []
        self._values: dict[str, Any] = {}
        if isinstance(value, dict):
            self._values = {str(key): item for key, item in value.items()}
        elif value is not None:
            self.problems.append(
                Problem(path=path, value=value, allowed="must be a mapping of fields")
            )

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def problem(self, name: str, value: object, allowed: str) -> None:
        """Note that field `name` holds a wrong value."""
        self.problems.append(Problem(path=self._at(name), value=value, allowed=allowed))

    def problems_at(self, value: object, allowed: str) -> None:
        """Note that the mapping as a whole is wrong."""
        self.problems.append(Problem(path=self.path, value=value, allowed=allowed))

    def text(self, name: str, default: str | None = None, *, pattern: str | None = None) -> str:
        """A string; required where no default is given."""
        value = self._take(name)
        if value is None:
            if default is None:
                self.problem(name, "nothing", "must be given")
            return default or ""
        if not isinstance(value, str) or not value.strip():
            self.problem(name, value, "must be a non-empty string")
            return default or ""
        if pattern and not re.fullmatch(pattern, value):
            self.problem(name, value, f"must match {pattern}")
        return value

    def optional(self, name: str) -> str | None:
        """A string or None where absent."""
        return self.text(name, "") or None

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of `choices`."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        if str(value) not in choices:
            given = "nothing" if value is None else value
            self.problem(name, given, f"must be one of {', '.join(choices)}")
            return default or choices[0]
        return str(value)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in [low, high]; required where no default is given."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not low <= value <= high:
            self.problem(name, _shown(value), f"must be in [{low}, {high}]")
            return low if default is None else default
        return int(value)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A number in [low, high]; required where no default is given."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not low <= value <= high:
            self.problem(name, _shown(value), f"must be in [{low:g}, {high:g}]")
            return low if default is None else default
        return float(value)

    def seconds(self, name: str, low: float, high: float, default: float) -> float:
        """A duration as `90s`, `15m` or `1h30m`, in seconds."""
        value = self._take(name)
        if value is None:
            return default
        seconds = duration_seconds(value)
        if seconds is None or not low <= seconds <= high:
            allowed = f"must be a duration in [{low:g}s, {high:g}s], as 90s, 15m or 1h30m"
            self.problem(name, value, allowed)
            return default
        return seconds

    def moment(self, name: str) -> datetime | None:
        """An RFC 3339 time with its zone, None where absent."""
        value = self._take(name)
        if value is None:
            return None
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.problem(name, value, "must be a time with zone, as 2026-12-01T11:30:00Z")
            return None
        return moment

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where absent."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(name, value, "must be a list of strings")
            return ()
        return tuple(value)

    def integers(self, name: str, low: int, high: int) -> tuple[int, ...]:
        """A list of ascending whole numbers in [low, high], empty where absent."""
        value = self._take(name)
        if value is None:
            return ()
        good = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) and low <= item <= high
            for item in value
        )
        if not good or value != sorted(set(value)):
            self.problem(name, value, f"must be ascending whole numbers in [{low}, {high}]")
            return ()
        return tuple(value)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """A mapping of strings, in the order given."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, dict):
            self.problem(name, value, "must be a mapping of names to values")
            return ()
        return tuple((str(key), str(item)) for key, item in value.items())

    def free(self, name: str) -> dict[str, Any]:
        """A mapping that is passed on as it is."""
        value = self._take(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(name, value, "must be a mapping")
            return {}
        return value

    def section(self, name: str) -> "Fields":
        """A nested mapping, empty where absent."""
        return Fields(self._take(name), self._at(name), self.problems)

    def items(self, name: str) -> list["Fields"]:
        """The mappings of a list, empty where absent."""
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(name, value, "must be a list")
            return []
        return [
            Fields(item, f"{self._at(name)}[{index}]", self.problems)
            for index, item in enumerate(value)
        ]

    def close(self) -> None:
        """Note every field that nothing asked for, with the nearest one that exists."""
        for name, value in self._values.items():
            if name in self._asked:
                continue
            near = get_close_matches(name, self._asked, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self._asked)}"
            self.problem(name, value, f"is not a field; {hint}")

    def _take(self, name: str) -> Any:
        self._asked.append(name)
        return self._values.get(name)

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def _shown(value: object) -> object:
    """A value where a number was wanted: a string shows its quotes, which are what is wrong."""
    if value is None:
        return "nothing"
    return repr(value) if isinstance(value, str) else value


def duration_seconds(value: object) -> float | None:
    """Seconds of `90s`, `1h30m` or a plain number; None where it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.fullmatch(f"(?:{_DURATION.pattern})+", value):
        return None
    return sum(float(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION.findall(value))
