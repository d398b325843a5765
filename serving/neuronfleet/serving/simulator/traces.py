"""Published request traces, read as arrivals; every row that cannot be used is named."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.api.traffic import Lengths
from neuronfleet.serving.replica.replay import Arrival
from neuronfleet.serving.simulator.trace_formats import (
    FORMATS,
    BadValue,
    Row,
    TraceFormat,
    recognise,
)

_SHOWN = 80
_HOUR_US = 3_600_000_000
_SORTABLE_US = 60_000_000
"""A row this far before its time was logged late, and is sorted in; further, its time is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that is left out."""

    line: int
    """Its number in the file, from 1."""
    text: str
    """Its beginning."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a file holds."""

    arrivals: tuple[Arrival, ...]
    """In order, from the trace's first row on."""
    format: str
    rows: int
    """Rows in the file, good and bad, whatever `limit_s` leaves of them."""
    bad: tuple[BadRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """How a trace is to be played."""

    speed: float = 1.0
    """Times as fast as it was recorded."""
    limit_s: float | None = None
    """Only what arrives within so many of the trace's own seconds."""
    jitter_s: float = 0.0
    """Each arrival is put off by up to so many of them: a trace whose clock ticks every 3 s
    otherwise arrives in volleys."""
    seed: int = 0
    """Of the jitter, and of what a trace of counts does not say."""
    input_tokens: Lengths | None = None
    """Drawn from for a trace of counts, which has no lengths; other traces keep their own."""
    output_tokens: Lengths | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and self.speed > 0):
            raise SpecError(f"speed = {self.speed:g}, must be above 0")
        if self.limit_s is not None and not self.limit_s > 0:
            raise SpecError(f"limit_s = {self.limit_s:g}, must be above 0")
        if not (math.isfinite(self.jitter_s) and self.jitter_s >= 0):
            raise SpecError(f"jitter_s = {self.jitter_s:g}, must be at least 0")


_AS_RECORDED = Playback()
_Numbered = tuple[int, str, Row]
"""A row with its line's number and text."""


def read_trace(lines: Iterable[str], source: str, playback: Playback = _AS_RECORDED) -> Trace:
    """The trace in `lines`, in whatever known format; `source` names it in errors.

    Blank lines are no rows.

    Raises:
        SpecError: the format is not known, or no row of it is good.
    """
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1))
    rows: Iterator[tuple[int, str]] = ((number, text) for number, text in numbered if text)
    number, first = next(rows, (0, ""))
    first = first.removeprefix("\ufeff")
    form = recognise(first)
    if form is None:
        raise SpecError(_unknown(source, first))
    if form.header != first:  # JSON lines: the first one is a row already
        rows = itertools.chain([(number, first)], rows)
    good, bad = _parse(form, rows)
    good, strays = _in_order(good)
    bad = sorted(bad + strays, key=lambda row: row.line)
    if not good:
        raise _nothing_good(source, form, bad)
    return Trace(
        arrivals=tuple(_arrivals(good, source, playback)),
        format=form.name,
        rows=len(good) + len(bad),
        bad=tuple(bad),
    )


def _parse(
    form: TraceFormat, rows: Iterable[tuple[int, str]]
) -> tuple[list[_Numbered], list[BadRow]]:
    good: list[_Numbered] = []
    bad: list[BadRow] = []
    for number, text in rows:
        try:
            good.append((number, text, form.parse(text)))
        except BadValue as error:
            bad.append(BadRow(line=number, text=text[:_SHOWN], reason=str(error)))
    return good, bad


def _in_order(rows: list[_Numbered]) -> tuple[list[_Numbered], list[BadRow]]:
    """The rows by time, without those whose time cannot be right.

    The longest run of rows in order is taken as the truth: against the latest time so far, one
    row from the far future would condemn all that follow it.
    """
    times = [row.at_us for _, _, row in rows]
    trusted = set(_longest_ascending(times))
    ahead: list[float] = [math.inf] * (len(times) + 1)
    for at in range(len(times) - 1, -1, -1):
        ahead[at] = times[at] if at in trusted else ahead[at + 1]
    good: list[_Numbered] = []
    bad: list[BadRow] = []
    behind = -math.inf
    for at, (number, text, row) in enumerate(rows):
        if at in trusted:
            behind = row.at_us
        if behind - _SORTABLE_US <= row.at_us <= ahead[at] + _SORTABLE_US:
            good.append((number, text, row))
        else:
            reason = "out of order: its time is over 60 s off its neighbours'"
            bad.append(BadRow(line=number, text=text[:_SHOWN], reason=reason))
    return sorted(good, key=lambda one: one[2].at_us), bad


def _longest_ascending(times: Sequence[int]) -> list[int]:
    """Indices of a longest run that never falls, by patience sorting."""
    tops: list[int] = []
    piles: list[int] = []
    below: list[int] = []
    for at, time in enumerate(times):
        pile = bisect_right(tops, time)
        below.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [time]
        piles[pile : pile + 1] = [at]
    chain = []
    at = piles[-1] if piles else -1
    while at >= 0:
        chain.append(at)
        at = below[at]
    return chain


def _arrivals(rows: Sequence[_Numbered], source: str, playback: Playback) -> list[Arrival]:
    """The arrivals, jittered, cut and compressed."""
    rng = Random(playback.seed)
    start_us = rows[0][2].at_us
    limit_us = math.inf if playback.limit_s is None else playback.limit_s * 1e6
    jitter_us = playback.jitter_s * 1e6
    timed: list[tuple[float, int, int]] = []
    for _, _, row in rows:
        at_us = row.at_us - start_us
        if at_us >= limit_us:
            break
        if row.requests is not None:
            timed.extend(_hour(at_us, row.requests, source, playback, rng))
        else:
            late_us = jitter_us * rng.random()
            timed.append((at_us + late_us, row.input_tokens, row.output_tokens))
    timed.sort(key=lambda one: one[0])
    return [
        Arrival(at_ms=at_us / 1000 / playback.speed, prompt_tokens=took, output_tokens=gave)
        for at_us, took, gave in timed
        if at_us < limit_us
    ]


def _hour(
    start_us: int, requests: int, source: str, playback: Playback, rng: Random
) -> Iterator[tuple[float, int, int]]:
    took, gave = playback.input_tokens, playback.output_tokens
    if took is None or gave is None:
        raise SpecError(f"{source}: holds counts alone, so input_tokens and output_tokens are due")
    for _ in range(requests):
        at_us = start_us + _HOUR_US * rng.random()
        yield at_us, took.at(rng.random()), gave.at(rng.random())


def _unknown(source: str, first: str) -> str:
    known = "".join(f"\n  {form.name}: {form.header}" for form in FORMATS)
    seen = f"begins with {first[:_SHOWN]!r}" if first else "is empty"
    return f"{source}: {seen}, must be one of the known traces:{known}"


def _nothing_good(source: str, form: TraceFormat, bad: Sequence[BadRow]) -> SpecError:
    if not bad:
        return SpecError(f"{source}: has the header of {form.name} and no row")
    problems = [
        Problem(path=f"line {row.line}", value=repr(row.text), allowed=row.reason)
        for row in bad[:3]
    ]
    error = SpecError.of(source, problems)
    return SpecError(f"{error}\n  no good row of {form.name} among {len(bad)}", error.problems)
