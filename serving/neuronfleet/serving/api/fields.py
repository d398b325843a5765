"""Read the fields of a document, noting every problem instead of stopping at the first."""

import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from neuronfleet.serving.api.problems import Problem

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+"
MOMENT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_BLANK = re.compile(r"[\t\n\f\r ]*")
_NOT_RE2 = re.compile(r"\(\?([=!#(>]|<[=!]|P=)|\\[1-9]|[*+?}]\+")
TEXT_MOST = 1024
"""Characters of a string, where its field says nothing else."""


class Fields:
    """One mapping of a document: its known fields are asked for, the rest are problems.

    Every reader returns its default (or a harmless stand-in) where the value is wrong, so that
    parsing goes on; whoever owns `problems` must look at it before using what was read.
    """

    def __init__(
        self, value: object, path: str, problems: list[Problem], *, tolerant: bool = False
    ) -> None:
        self.path = path
        self.problems = problems
        self._tolerant = tolerant
        self._asked: list[str] = []
        self._values: dict[str, Any] = {}
        if isinstance(value, Mapping):
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

    def text(
        self,
        name: str,
        default: str | None = None,
        *,
        pattern: str | None = None,
        most: int = TEXT_MOST,
    ) -> str:
        """A string of at most `most` characters; required where no default is given."""
        value = self._take(name)
        if value is None:
            if default is None:
                self.problem(name, "nothing", "must be given")
            return default or ""
        if not isinstance(value, str) or _BLANK.fullmatch(value):
            self.problem(name, value, "must be a non-empty string")
            return default or ""
        # ASCII, as in the API server's RE2: a name that is good here is good there.
        if pattern and not re.fullmatch(pattern, value, re.ASCII):
            self.problem(name, value, f"must match {pattern}")
        elif len(value) > most:
            self.problem(name, f"{len(value)} characters", f"must hold at most {most}")
        return value

    def optional(self, name: str, *, most: int = TEXT_MOST) -> str | None:
        """A string or None where absent."""
        return self.text(name, "", most=most) or None

    def regex(self, name: str, *, most: int = 256) -> str | None:
        """A regular expression that Python and RE2 both know, None where absent."""
        text = self.optional(name, most=most)
        wrong = regex_problem(text) if text else None
        if wrong:
            self.problem(name, text, f"must be a regular expression: {wrong}")
            return None
        return text

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of `choices`."""
        value = self._take(name)
        if value is None and default is not None:
            return default
        if str(value) not in choices:
            given = "nothing" if value is None else value
            near = get_close_matches(str(given), choices, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.problem(name, given, f"must be one of {', '.join(choices)}{hint}")
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
        moment = value if isinstance(value, datetime) else _moment(value)
        if moment is None or moment.tzinfo is None:
            self.problem(name, value, "must be a time with zone, as 2026-12-01T11:30:00Z")
            return None
        return moment

    def strings(self, name: str, *, most: int = 64) -> tuple[str, ...]:
        """A list of at most `most` strings, empty where absent."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(name, value, "must be a list of strings")
            return ()
        if len(value) > most or any(len(item) > TEXT_MOST for item in value):
            allowed = f"must be at most {most} strings of at most {TEXT_MOST} characters"
            self.problem(name, f"{len(value)} strings", allowed)
            return ()
        return tuple(value)

    def integers(self, name: str, low: int, high: int, *, most: int = 64) -> tuple[int, ...]:
        """A list of at most `most` ascending whole numbers in [low, high], empty where absent."""
        value = self._take(name)
        if value is None:
            return ()
        good = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) and low <= item <= high
            for item in value
        )
        if not good or len(value) > most or value != sorted(set(value)):
            allowed = f"must be ascending whole numbers in [{low}, {high}], at most {most}"
            self.problem(name, value, allowed)
            return ()
        return tuple(value)

    def pairs(self, name: str, *, most: int = 64) -> tuple[tuple[str, str], ...]:
        """A mapping of at most `most` names to strings, in the order given."""
        value = self._take(name)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or len(value) > most:
            self.problem(name, value, f"must be a mapping of at most {most} names to strings")
            return ()
        for key, item in value.items():
            if not isinstance(item, str) or len(item) > TEXT_MOST:
                allowed = f"must be a string of at most {TEXT_MOST} characters, in quotes"
                self.problem(f"{name}.{key}", item, allowed)
        return tuple((str(key), str(item)) for key, item in value.items())

    def free(self, name: str) -> dict[str, Any]:
        """A mapping that is passed on as it is."""
        value = self._take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problem(name, value, "must be a mapping")
            return {}
        return dict(value)

    def section(self, name: str) -> "Fields":
        """A nested mapping, empty where absent."""
        return self._inner(self._take(name), self._at(name))

    def items(self, name: str, *, most: int = 1000) -> list["Fields"]:
        """The mappings of a list of at most `most`, empty where absent."""
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(name, value, "must be a list")
            return []
        if len(value) > most:
            self.problem(name, f"{len(value)} items", f"must hold at most {most}")
            return []
        return [self._inner(item, f"{self._at(name)}[{index}]") for index, item in enumerate(value)]

    def close(self) -> None:
        """Note every field that nothing asked for, with the nearest one that exists.

        A tolerant reader notes none: what an older or newer version wrote stays readable.
        """
        if self._tolerant:
            return
        for name, value in self._values.items():
            if name in self._asked:
                continue
            near = get_close_matches(name, self._asked, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(self._asked)}"
            self.problem(name, value, f"is not a field; {hint}")

    def _inner(self, value: object, path: str) -> "Fields":
        return Fields(value, path, self.problems, tolerant=self._tolerant)

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


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str) or not re.fullmatch(MOMENT, value):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def duration_seconds(value: object) -> float | None:
    """Seconds of `90s`, `1h30m` or a plain number; None where it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.fullmatch(f"(?:{_DURATION.pattern})+", value):
        return None
    return sum(float(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION.findall(value))


def regex_problem(text: str) -> str | None:
    """Why `text` is no regular expression of both Python and RE2; None where it is one.

    The API server checks it with RE2 and the canary runs it in Python. RE2 has no lookaround, no
    back-reference and no possessive or atomic group, so none of them is taken.
    """
    foreign = _NOT_RE2.search(re.sub(r"\\[^1-9]", "", text))
    if foreign:
        return f"{foreign.group()} is unknown to RE2"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as wrong:
        return str(wrong)
    return None
