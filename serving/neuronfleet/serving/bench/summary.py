"""What a run's results come to, and whether they may be believed."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.bench.results import Result, Status
from neuronfleet.serving.replica.replay import quantile

LAG_SHARE = 0.05
"""Of the TTFT objective: a client that sends later than that measures itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of a latency, in fleet seconds; None where nothing was answered.

    A request that failed never got its token: it ranks as infinite, so that a fleet cannot
    improve its figures by refusing. A percentile that falls among such requests is infinite.
    """

    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run."""

    offered: int
    """Requests that came to an end, good or bad; the denominator of attainment."""
    ok: int
    refused: int
    rejected: int
    empty: int
    cut: int
    failed: int
    unfinished: int
    """Running as the run ended; counted nowhere else."""
    attainment: float | None
    """Share of the offered that met both objectives; None where nothing was offered."""
    ttft: Percentiles
    tpot: Percentiles
    output_tokens: int
    """Of all requests that came to an end."""
    unfinished_tokens: int
    """What the unfinished had got by then."""
    window_s: float
    tokens_per_second: float | None
    """Output tokens over the window."""
    dispatch_lag_p99_s: float | None
    loop_late_p99_s: float | None
    """How late the client's own event loop ran its timers, in fleet seconds."""
    void: tuple[str, ...]
    """Why the figures are the client's and not the fleet's; empty where they count."""


def summarize(
    results: Iterable[Result],
    objective: Objective,
    *,
    window_s: float,
    loop_late_p99_s: float | None = None,
) -> Summary:
    """The summary of `results` over `window_s` fleet seconds."""
    everything = list(results)
    ended = [one for one in everything if one.status is not Status.UNFINISHED]
    count = Counter(one.status for one in everything)
    failures = len(ended) - count[Status.OK]
    fine = [one for one in ended if one.status is Status.OK]
    tokens = sum(one.tokens for one in ended)
    lag = quantile((one.dispatch_lag_s for one in everything), 0.99)
    good = sum(one.meets(objective) for one in ended)
    return Summary(
        offered=len(ended),
        ok=count[Status.OK],
        refused=count[Status.REFUSED],
        rejected=count[Status.REJECTED],
        empty=count[Status.EMPTY],
        cut=count[Status.CUT],
        failed=count[Status.FAILED],
        unfinished=count[Status.UNFINISHED],
        attainment=good / len(ended) if ended else None,
        ttft=_percentiles([one.ttft_s for one in fine], failures),
        tpot=_percentiles([one.tpot_s for one in fine], failures),
        output_tokens=tokens,
        unfinished_tokens=sum(one.tokens for one in everything) - tokens,
        window_s=window_s,
        tokens_per_second=tokens / window_s if window_s > 0 else None,
        dispatch_lag_p99_s=lag,
        loop_late_p99_s=loop_late_p99_s,
        void=_void(lag, loop_late_p99_s, objective),
    )


def _percentiles(values: Sequence[float | None], failures: int) -> Percentiles:
    known = [value for value in values if value is not None]
    p50, p90, p99 = (_ranked(known, failures, share) for share in (0.5, 0.9, 0.99))
    return Percentiles(p50=p50, p90=p90, p99=p99)


def _ranked(known: Sequence[float], failures: int, share: float) -> float | None:
    """The quantile with `failures` infinite values above the known ones."""
    if not known:
        return None
    rank, last = share * (len(known) + failures - 1), len(known) - 1
    if rank > last:
        return math.inf
    return quantile(known, rank / last if last else 0.0)


def _void(lag_s: float | None, loop_late_s: float | None, objective: Objective) -> tuple[str, ...]:
    limit_s = LAG_SHARE * objective.ttft_ms / 1000
    seen = (("requests left", lag_s), ("the client's event loop ran", loop_late_s))
    return tuple(
        f"{what} {late_s * 1000:.0f} ms late at p99, over {limit_s * 1000:.0f} ms: "
        f"{LAG_SHARE:.0%} of the TTFT objective"
        for what, late_s in seen
        if late_s is not None and late_s > limit_s
    )
