"""Fit the timing law to measured points. Run by `make fit`; its result is committed.

Levenberg and Marquardt's method over the logarithms of the law's constants, with differences for
derivatives: constants are positive, and their errors relative. What is made small is the sum over
points of errors to the fourth power, each in units of its tolerance: every point is held to its
bar, so the worst ones weigh most. A weak pull of each bucket's cost towards the line through its
neighbours decides between bucket costs that the points only know the sum of.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from types import MappingProxyType

from neuronfleet.serving.api.evidence import KneePoint, ServePoint
from neuronfleet.serving.replica import points
from neuronfleet.serving.replica.timing import Buckets, TimingModel

BARS = {"output_tok_per_s": 0.015, "ttft_p50_ms": 0.06, "tpot_p50_ms": 0.02}
"""Relative errors that a fit must stay within."""
_WEIGHTS = BARS | {"ttft_p50_ms": 0.04, "ttft_p99_ms": 0.25}
"""Tolerances of the fit: medians of TTFT repeat closer than their bar, and pin the prefill that
attainment hangs on; the tail alone shows what the first request after boot cost, roughly."""
_ROUNDS = 30
_STEP = 0.005
"""Relative step of the differences: above the jumps of whole steps and requests."""
_FARTHEST = 0.3
"""Largest change of a logarithm in one round."""
_CURVATURE = 0.2
"""Relative distance from the neighbours' line that weighs as much as a whole bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Which constants the points can tell; the rest stay where they start."""

    prefill: tuple[int, ...]
    """Prefill buckets that some point runs, tokens."""
    decode: tuple[int, ...]
    scalars: tuple[str, ...]


def residuals(
    timing: TimingModel,
    rows: Sequence[ServePoint],
    knees: Sequence[KneePoint] = (),
    steps: Mapping[int, float] = MappingProxyType({}),
) -> list[float]:
    """Signed squares of all errors, in units of their tolerances, in an order that stays.

    `steps` are decode costs by bucket as read off a log, at the tolerance of a whole TPOT.
    """
    found = [bend for buckets in (timing.prefill, timing.decode) for bend in _bends(buckets)]
    for tokens, ms in zip(timing.decode.tokens, timing.decode.ms, strict=True):
        if tokens in steps:
            found.append((ms / steps[tokens] - 1) / _WEIGHTS["tpot_p50_ms"])
    pairs = [(points.emulated(timing, row), row.figures) for row in rows]
    pairs += [
        (points.emulated_knee(timing, knee, slots=points.DEFAULT_SLOTS)[1], knee.figures)
        for knee in knees
    ]
    for ours, theirs in pairs:
        for name, tolerance in _WEIGHTS.items():
            error = points.relative_error(getattr(ours, name), getattr(theirs, name))
            found.append(0.0 if error is None else error / tolerance)
    # Squared once more by whoever sums them.
    return [one * abs(one) for one in found]


def misfit(
    timing: TimingModel,
    rows: Sequence[ServePoint],
    knees: Sequence[KneePoint] = (),
    steps: Mapping[int, float] = MappingProxyType({}),
) -> float:
    """Sum of the squared residuals."""
    return sum(one * one for one in residuals(timing, rows, knees, steps))


def _bends(buckets: Buckets) -> list[float]:
    """How far inner buckets lie from the line through their neighbours."""
    found = []
    for at in range(1, len(buckets.tokens) - 1):
        outer = Buckets(
            tokens=(buckets.tokens[at - 1], buckets.tokens[at + 1]),
            ms=(buckets.ms[at - 1], buckets.ms[at + 1]),
        )
        line = outer.resized((buckets.tokens[at],)).ms[0]
        found.append((max(line, 1e-9) / max(buckets.ms[at], 1e-9) - 1) / _CURVATURE)
    return found


def fit(
    start: TimingModel,
    rows: Sequence[ServePoint],
    free: Free,
    *,
    knees: Sequence[KneePoint] = (),
    steps: Mapping[int, float] = MappingProxyType({}),
) -> TimingModel:
    """The timing model near `start` that meets the rows best."""
    names = _names(free)
    best, here = start, residuals(start, rows, knees, steps)
    damping = 0.01
    for _ in range(_ROUNDS):
        slopes = []
        for name in names:
            there = residuals(moved(best, name, 1 + _STEP), rows, knees, steps)
            slopes.append([(b - a) / math.log1p(_STEP) for a, b in zip(here, there, strict=True)])
        trial = best
        for name, change in zip(names, _solved(slopes, here, damping), strict=True):
            trial = moved(trial, name, math.exp(max(-_FARTHEST, min(_FARTHEST, change))))
        there = residuals(trial, rows, knees, steps)
        if _square(there) < _square(here):
            best, here, damping = trial, there, damping / 3
        else:
            damping *= 4
    return replace(best, fitted_to=len(rows) + len(knees))


def _square(values: Sequence[float]) -> float:
    return sum(value * value for value in values)


def _solved(slopes: list[list[float]], here: list[float], damping: float) -> list[float]:
    """The damped normal equations' solution, by Gaussian elimination: a dozen unknowns."""
    size = len(slopes)
    matrix = [[sum(map(mul, slopes[i], slopes[j])) for j in range(size)] for i in range(size)]
    for i in range(size):
        matrix[i][i] += damping * (matrix[i][i] + 1e-9)
        matrix[i].append(-sum(map(mul, slopes[i], here)))
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for row in range(size):
            if row != i:
                share = matrix[row][i] / matrix[i][i]
                matrix[row] = [a - share * b for a, b in zip(matrix[row], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]


def constants(timing: TimingModel) -> Mapping[str, float]:
    """All constants of the law by name, as `prefill 2048`."""
    named = {f"prefill {n}": ms for n, ms in zip(*_both(timing.prefill), strict=True)}
    named |= {f"decode {n}": ms for n, ms in zip(*_both(timing.decode), strict=True)}
    scalars = ("prefill_ms_per_token", "host_ms", "decode_ms_per_slot", "first_ms")
    return named | {name: getattr(timing, name) for name in scalars}


def _both(buckets: Buckets) -> tuple[tuple[int, ...], tuple[float, ...]]:
    return buckets.tokens, buckets.ms


def _names(free: Free) -> list[str]:
    prefill = [f"prefill {size}" for size in free.prefill]
    return prefill + [f"decode {size}" for size in free.decode] + list(free.scalars)


def moved(timing: TimingModel, name: str, factor: float) -> TimingModel:
    """`timing` with one constant times a factor."""
    which, _, size = name.partition(" ")
    if not size:
        return replace(timing, **{name: getattr(timing, name) * factor})
    buckets: Buckets = getattr(timing, which)
    ms = tuple(
        cost * factor if tokens == int(size) else cost
        for tokens, cost in zip(buckets.tokens, buckets.ms, strict=True)
    )
    changed = Buckets(tokens=buckets.tokens, ms=ms)
    if which == "prefill":
        return replace(timing, prefill=changed)
    return replace(timing, decode=changed)
