"""Arrivals of open loads whose rate changes over time, drawn one by one."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.traffic import Lengths
from neuronfleet.serving.replica.replay import Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One rate throughout."""

    rate: float
    """Requests a second; 0 is a load of nothing."""

    def __post_init__(self) -> None:
        _within("rate", self.rate, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A base rate, broken by bursts at equal distances."""

    base: float
    """Requests a second between bursts."""
    peak: float
    """Requests a second within one."""
    every_s: float
    """Seconds from burst to burst; each period ends in its burst, so that a run starts quiet."""
    lasting_s: float
    """Seconds that a burst lasts."""

    def __post_init__(self) -> None:
        _within("base", self.base, 0)
        _within("peak", self.peak, 0)
        _within("every_s", self.every_s, 0, above=True)
        _within("lasting_s", self.lasting_s, 0, self.every_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diurnal:
    """A day: a sine about a mean, from its quietest hour on."""

    mean: float
    """Requests a second over a whole period."""
    swing: float
    """Share of the mean by which the rate rises and falls."""
    period_s: float = 86_400.0

    def __post_init__(self) -> None:
        _within("mean", self.mean, 0)
        _within("swing", self.swing, 0, 1)
        _within("period_s", self.period_s, 0, above=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Rates that follow each other."""

    stages: tuple[tuple[float, float], ...]
    """(start in seconds, requests a second); nothing arrives before the first."""

    def __post_init__(self) -> None:
        for number, (start_s, rate) in enumerate(self.stages):
            _within(f"stages[{number}].start_s", start_s, 0)
            _within(f"stages[{number}].rate", rate, 0)
        starts = [start_s for start_s, _ in self.stages]
        if not starts or any(b <= a for a, b in itertools.pairwise(starts)):
            raise SpecError(f"stages start at {starts}, must be at least one, and ascend")


Pattern = Steady | Burst | Diurnal | Stages


def rate_at(pattern: Pattern, t_s: float) -> float:
    """Requests a second at `t_s` seconds after the start."""
    match pattern:
        case Steady():
            return pattern.rate
        case Burst():
            into = t_s % pattern.every_s
            return pattern.peak if into >= pattern.every_s - pattern.lasting_s else pattern.base
        case Diurnal():
            turn = math.cos(2 * math.pi * t_s / pattern.period_s)
            return pattern.mean * (1 - pattern.swing * turn)
        case Stages():
            begun = bisect_right(pattern.stages, t_s, key=lambda stage: stage[0])
            return pattern.stages[begun - 1][1] if begun else 0.0


def peak_rate(pattern: Pattern) -> float:
    """The highest rate that the pattern has."""
    match pattern:
        case Steady():
            return pattern.rate
        case Burst():
            return max(pattern.base, pattern.peak)
        case Diurnal():
            return pattern.mean * (1 + pattern.swing)
        case Stages():
            return max(rate for _, rate in pattern.stages)


def arrivals(
    pattern: Pattern,
    input_tokens: Lengths,
    output_tokens: Lengths,
    *,
    seed: int,
    seconds: float,
) -> Iterator[Arrival]:
    """The arrivals of the first `seconds`, which may be infinite: they are drawn as asked for.

    A Poisson stream of the peak rate is thinned to the rate of the moment (Lewis and Shedler
    1979). Times, thinning and lengths draw from streams of their own: a steady rate has the very
    times of `replay.poisson`, and other lengths leave the times as they are.
    """
    peak = peak_rate(pattern)
    if not peak:
        return
    times, keep, lengths = Random(seed), Random(f"{seed} keep"), Random(f"{seed} lengths")
    steady = isinstance(pattern, Steady)
    at = times.expovariate(peak)
    while at < seconds:
        if steady or keep.random() * peak < rate_at(pattern, at):
            yield Arrival(
                at_ms=at * 1000,
                prompt_tokens=input_tokens.at(lengths.random()),
                output_tokens=output_tokens.at(lengths.random()),
            )
        at += times.expovariate(peak)


def _within(
    name: str, value: float, low: float, high: float = math.inf, *, above: bool = False
) -> None:
    """Refuse what is no finite number in [low, high], or with `above` not over `low`."""
    if math.isfinite(value) and low <= value <= high and not (above and value == low):
        return
    if above:
        raise SpecError(f"{name} = {value:g}, must be above {low:g}")
    bound = "at least 0" if high == math.inf else f"in [{low:g}, {high:g}]"
    raise SpecError(f"{name} = {value:g}, must be {bound}")
