"""Facts as an API server stores them: camelCase, what is unknown left out, read with tolerance."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from neuronfleet.serving.api.problems import SpecError


class Stored:
    """A frozen dataclass that an object's status holds."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The facts that are known, by camelCase name; None and what is empty are left out."""
        mine: Any = type(self)
        return {
            name: _plain(value)
            for attribute, name in names(mine).items()
            if (value := getattr(self, attribute)) is not None and value not in ((), {})
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What another version of the controller may have stored.

        A field that is unknown here, or holds what it should not, counts as absent; so does an
        item of a list that lacks a field it cannot do without.

        Raises:
            SpecError: `stored` itself lacks such a field.
        """
        mine: Any = cls
        read: Self | None = _read_fields(mine, stored)
        if read is None:
            needed = ", ".join(required(mine))
            raise SpecError(f"{cls.__name__} = {sorted(stored)}, must have {needed}")
        return read


@cache
def names(cls: Any) -> dict[str, str]:
    """Stored name of each field, by attribute: `from_` is `from`, `p90_seconds` `p90Seconds`."""
    return {
        one.name: re.sub(r"_([a-z])", lambda part: part.group(1).upper(), one.name.rstrip("_"))
        for one in fields(cls)
    }


@cache
def required(cls: Any) -> tuple[str, ...]:
    """Stored names of the fields that have no default."""
    return tuple(
        names(cls)[one.name]
        for one in fields(cls)
        if one.default is MISSING and one.default_factory is MISSING
    )


@cache
def hints(cls: Any) -> dict[str, Any]:
    """Type of each field, by attribute, less its None."""
    return {name: _without_none(hint) for name, hint in get_type_hints(cls).items()}


def _without_none(hint: Any) -> Any:
    if isinstance(hint, UnionType):
        [hint] = [one for one in get_args(hint) if one is not type(None)]
    return hint


def _plain(value: Any) -> Any:
    if isinstance(value, Stored):
        return value.to_dict()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _read_fields(cls: Any, stored: object) -> Any:
    """A dataclass from what is stored; None where that lacks a field without a default."""
    if not isinstance(stored, Mapping):
        return None
    found = {}
    for attribute, name in names(cls).items():
        value = _read(hints(cls)[attribute], stored.get(name))
        if value is not None:
            found[attribute] = value
    if any(names(cls)[one.name] in required(cls) and one.name not in found for one in fields(cls)):
        return None
    return cls(**found)


def _read(hint: Any, value: object) -> Any:
    """`value` as the type that `hint` names, None where it is another."""
    if get_origin(hint) is tuple:
        return _read_list(get_args(hint)[0], value)
    if get_origin(hint) is not None:
        return _read_map(get_args(hint)[1], value)
    if issubclass(hint, Stored):
        return _read_fields(hint, value)
    if hint is datetime:
        return _read_moment(value)
    if isinstance(value, bool) and hint is not bool:
        return None
    if hint is float:
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, hint) else None


def _read_list(hint: Any, value: object) -> tuple[Any, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(item for one in value if (item := _read(hint, one)) is not None)


def _read_map(hint: Any, value: object) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    found = {str(key): _read(hint, item) for key, item in value.items()}
    return {key: item for key, item in found.items() if item is not None}


def _read_moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value if value.tzinfo else None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment and moment.tzinfo else None
