"""Fit the timing law to measured points. Run by `make fit`; its result is committed.

A compass search over the law's constants: each is moved up and down by a share of itself, a move
that lowers the misfit is kept, and the shares are halved when none does. The misfit is the sum
over points of squared errors, each in units of the bar it is judged by, and a weak pull of each
bucket's cost towards the line through its neighbours, which decides between bucket costs that
the points only know the sum of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neuronfleet.serving.api.evidence import KneePoint, ServePoint
from neuronfleet.serving.replica import points
from neuronfleet.serving.replica.timing import Buckets, TimingModel

BARS = {"output_tok_per_s": 0.015, "ttft_p50_ms": 0.06, "tpot_p50_ms": 0.02}
"""Relative errors that a fit must stay within."""
_WEIGHTS = BARS | {"ttft_p99_ms": 0.25}
"""The tail alone shows what the first request after boot cost, at a looser tolerance."""
_CURVATURE = 0.2
"""Relative distance from the neighbours' line that weighs as much as a whole bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Which constants the points can tell; the rest stay where they start."""

    prefill: tuple[int, ...]
    """Prefill buckets that some point runs, tokens."""
    decode: tuple[int, ...]
    scalars: tuple[str, ...]


def misfit(
    timing: TimingModel, rows: Sequence[ServePoint], knees: Sequence[KneePoint] = ()
) -> float:
    """Sum of squared errors, in units of the bars."""
    total = sum(_bend(buckets) for buckets in (timing.prefill, timing.decode))
    pairs = [(points.emulated(timing, row), row.figures) for row in rows]
    pairs += [
        (points.emulated_knee(timing, knee, slots=points.DEFAULT_SLOTS)[1], knee.figures)
        for knee in knees
    ]
    for ours, theirs in pairs:
        for name, bar in _WEIGHTS.items():
            error = points.relative_error(getattr(ours, name), getattr(theirs, name))
            total += 0.0 if error is None else (error / bar) ** 2
    return total


def _bend(buckets: Buckets) -> float:
    """How far inner buckets lie from the line through their neighbours."""
    total = 0.0
    for at in range(1, len(buckets.tokens) - 1):
        outer = Buckets(
            tokens=(buckets.tokens[at - 1], buckets.tokens[at + 1]),
            ms=(buckets.ms[at - 1], buckets.ms[at + 1]),
        )
        line = outer.resized((buckets.tokens[at],)).ms[0]
        total += (max(line, 1e-9) / max(buckets.ms[at], 1e-9) - 1) ** 2 / _CURVATURE**2
    return total


def fit(
    start: TimingModel,
    rows: Sequence[ServePoint],
    free: Free,
    *,
    knees: Sequence[KneePoint] = (),
    share: float = 0.1,
    least_share: float = 0.001,
) -> TimingModel:
    """The timing model near `start` that meets the rows best."""
    best, best_misfit = start, misfit(start, rows, knees)
    names = _names(free)
    while share >= least_share:
        improved = False
        for name in names:
            for factor in (1 + share, 1 / (1 + share)):
                trial = moved(best, name, factor)
                trial_misfit = misfit(trial, rows, knees)
                if trial_misfit < best_misfit * (1 - 1e-9):
                    best, best_misfit, improved = trial, trial_misfit, True
                    break
        if not improved:
            share /= 2
    return replace(best, fitted_to=len(rows) + len(knees))


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
