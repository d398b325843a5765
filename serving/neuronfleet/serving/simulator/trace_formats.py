"""Published request traces: how each is recognised, and what a row of it says."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_TOKENS = 1_048_576
"""Most tokens a length may have, as in `spec.traffic`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
_LAST_US = 1 << 53
"""285 years: up to here a float tells microseconds apart."""


class BadValue(ValueError):
    """A row that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: a request, or with `requests` an hour's count of them."""

    at_us: int
    """Microseconds on the trace's own clock: whole, so that shifting loses nothing."""
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One published or normalised form of a trace."""

    name: str
    header: str
    """Its first line, or for JSON lines the keys of every line."""
    parse: Callable[[str], Row]
    """The row of a line.

    Raises:
        BadValue: the line cannot be used.
    """


def recognise(first: str) -> TraceFormat | None:
    """The format that begins with this line, which of JSON lines is a row already."""
    try:
        is_mooncake = _json(first).keys() >= {*_MOONCAKE_KEYS}
    except BadValue:
        return next((one for one in CSV_FORMATS if one.header == first), None)
    return MOONCAKE if is_mooncake else None


def _requests(
    name: str,
    header: str,
    columns: tuple[str, str, str],
    read_time: Callable[[str, object], int] | None = None,
) -> TraceFormat:
    """A CSV of requests; `columns` hold the time, the input and the output tokens."""
    names = header.split(",")
    at, took, gave = (names.index(column) for column in columns)
    time_of = read_time or _seconds

    def parse(line: str) -> Row:
        cells = _cells(line, len(names))
        return Row(
            at_us=time_of(columns[0], cells[at]),
            input_tokens=_tokens(columns[1], cells[took]),
            output_tokens=_tokens(columns[2], cells[gave]),
        )

    return TraceFormat(name=name, header=header, parse=parse)


def _hour(line: str) -> Row:
    start, requests, _ = _cells(line, 3)
    count = _whole("requests_attributed", requests)
    if count < 0:
        raise BadValue(f"requests_attributed = {count}, must be at least 0")
    return Row(at_us=_seconds("hour_start_s", start), requests=count)


def _mooncake(line: str) -> Row:
    row = _json(line)
    missing = [key for key in _MOONCAKE_KEYS if key not in row]
    if missing:
        raise BadValue(f"{missing[0]} is missing")
    return Row(
        at_us=_seconds("timestamp", row["timestamp"], unit=1000),
        input_tokens=_tokens("input_length", row["input_length"]),
        output_tokens=_tokens("output_length", row["output_length"]),
    )


def _json(line: str) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadValue("is no JSON") from error
    if not isinstance(row, dict):
        raise BadValue("is no JSON object")
    return row


def _cells(line: str, columns: int) -> list[str]:
    cells = line.split(",")
    if len(cells) != columns:
        raise BadValue(f"{len(cells)} columns, must be {columns}")
    return cells


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not _WHOLE.fullmatch(value) or len(value) > 18:
        raise BadValue(f"{name} = {value!r}, must be a whole number")
    return int(value)


def _tokens(name: str, value: object) -> int:
    tokens = _whole(name, value)
    if not 1 <= tokens <= _TOKENS:
        raise BadValue(f"{name} = {tokens}, must be in [1, {_TOKENS}]")
    return tokens


def _seconds(name: str, value: object, unit: int = 1_000_000) -> int:
    """Microseconds of a number of seconds, or of `unit` microseconds each."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue(f"{name} = {value!r}, must be a number")
    try:
        at_us = float(value) * unit
    except (ValueError, OverflowError) as error:
        raise BadValue(f"{name} = {value!r}, must be a number") from error
    if not math.isfinite(at_us) or not 0 <= at_us <= _LAST_US:
        raise BadValue(f"{name} = {value!r}, must be a time of 0 or more")
    return round(at_us)


def _moment(name: str, value: object) -> int:
    """Microseconds since 1970 of `2023-11-16 18:17:03.9799600`; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise BadValue(f"{name} = {value!r}, must be a date and a time") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


_NORMAL = ("t_s", "input_tokens", "output_tokens")
_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_BURST = ("Timestamp", "Request tokens", "Response tokens")
_BURST_TAIL = "Model,Request tokens,Response tokens,Total tokens,Log Type"
_MOONCAKE_KEYS = ("timestamp", "input_length", "output_length")
_PREFIXES = "prefix_blocks_512,prefix_blocks_hit_infinite_cache"

CSV_FORMATS = (
    _requests("azure-llm-2023", ",".join(_AZURE), _AZURE, _moment),
    _requests("azure-llm-2023-normalised", ",".join(_NORMAL), _NORMAL),
    _requests("mooncake-fast25-normalised", ",".join((*_NORMAL, _PREFIXES)), _NORMAL),
    _requests("burstgpt", f"Timestamp,{_BURST_TAIL}", _BURST),
    _requests("burstgpt-sessions", f"Timestamp,Session ID,Elapsed time,{_BURST_TAIL}", _BURST),
    TraceFormat(
        name="burstgpt-hourly",
        header="hour_start_s,requests_attributed,inferred_sessions",
        parse=_hour,
    ),
)
MOONCAKE = TraceFormat(
    name="mooncake-fast25",
    header='{"timestamp": ..., "input_length": ..., "output_length": ..., "hash_ids": ...}',
    parse=_mooncake,
)
FORMATS = (*CSV_FORMATS, MOONCAKE)
"""All that are known."""
