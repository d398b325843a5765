"""Read the typed fields of a JSON object; the first wrong one is the error."""

import itertools
import re
from collections.abc import Mapping, Sequence

_MISSING = object()


class SettingsError(ValueError):
    """Settings that no replica can be started from; names the field, its value and its range."""


class Fields:
    """One object of the settings; a field that is null counts as absent."""

    def __init__(self, raw: object, path: str, unknown: list[str]) -> None:
        if not isinstance(raw, Mapping):
            raise SettingsError(f"{path or 'settings'} = {raw!r}, must be an object")
        self._raw = raw
        self._path = path
        self._unknown = unknown
        self._read: set[str] = set()

    def where(self, name: str) -> str:
        """Path of a field, as errors name it."""
        return f"{self._path}.{name}" if self._path else name

    def error(self, name: str, value: object, allowed: str) -> SettingsError:
        """What is raised for a field out of its range."""
        return SettingsError(f"{self.where(name)} = {value!r}, must be {allowed}")

    def _get(self, name: str, default: object) -> object:
        self._read.add(name)
        value = self._raw.get(name)
        if value is not None:
            return value
        if default is _MISSING:
            raise SettingsError(f"{self.where(name)} is missing, must be given")
        return default

    def optional(self, name: str, pattern: str = r"(?s).+") -> str | None:
        """A text that matches, or None."""
        value = self._get(name, None)
        if value is None:
            return None
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            allowed = "a text" if pattern == r"(?s).+" else f"a text like {pattern}"
            raise self.error(name, value, allowed)
        return value

    def text(self, name: str, pattern: str = r"(?s).+") -> str:
        """A text that matches and must be there."""
        self._get(name, _MISSING)
        return self.optional(name, pattern) or ""

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of several texts."""
        value = self._get(name, _MISSING if default is None else default)
        if not isinstance(value, str) or value not in allowed:
            raise self.error(name, value, f"one of {', '.join(allowed)}")
        return value

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in [low, high]."""
        value = self._get(name, _MISSING if default is None else default)
        return self._whole(name, value, low, high)

    def maybe_integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number in [low, high], or None."""
        value = self._get(name, None)
        return None if value is None else self._whole(name, value, low, high)

    def _whole(self, name: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, value, f"a whole number in [{low}, {high}]")
        return value

    def sizes(self, name: str, high: int) -> tuple[int, ...]:
        """Whole numbers in [1, high], each larger than the one before; empty where absent."""
        raw = self._get(name, ())
        if not isinstance(raw, list | tuple):
            raise self.error(name, raw, "a list of whole numbers")
        values = tuple(self._whole(name, one, 1, high) for one in raw)
        if any(first >= second for first, second in itertools.pairwise(values)):
            raise self.error(name, list(values), "in ascending order")
        return values

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty where absent."""
        raw = self._get(name, ())
        if not isinstance(raw, list | tuple) or not all(isinstance(one, str) for one in raw):
            raise self.error(name, raw, "a list of texts")
        return tuple(raw)

    def pairs(self, name: str) -> dict[str, str]:
        """A mapping of texts; empty where absent."""
        raw = self._get(name, {})
        if not isinstance(raw, Mapping) or not all(isinstance(one, str) for one in raw.values()):
            raise self.error(name, raw, "an object of texts")
        return dict(raw)

    def section(self, name: str) -> "Fields":
        """A nested object that must be there."""
        return Fields(self._get(name, _MISSING), self.where(name), self._unknown)

    def maybe_section(self, name: str) -> "Fields | None":
        """A nested object, or None."""
        raw = self._get(name, None)
        return None if raw is None else Fields(raw, self.where(name), self._unknown)

    def close(self) -> None:
        """Note the fields that were not read: a newer controller may write more than is known."""
        self._unknown += [self.where(name) for name in self._raw if name not in self._read]
