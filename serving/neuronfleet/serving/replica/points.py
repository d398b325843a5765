"""Replay a measured point in virtual time, and say how far the timing model is from it."""

from collections.abc import Sequence

from neuronfleet.serving.api.evidence import Figures, KneePoint, ServePoint
from neuronfleet.serving.replica import replay
from neuronfleet.serving.replica.timing import TimingModel

DEFAULT_SLOTS = 32
"""vLLM Neuron's default max_num_seqs, for points that do not name theirs."""


def emulated(timing: TimingModel, point: ServePoint) -> Figures:
    """The figures of the same closed loop on the step machine.

    Raises:
        PromptTooLongError: the prompt has no bucket.
    """
    # The study's client sent 4 requests a worker, at least 8 and at most 128.
    requests = point.requests or max(8, min(128, 4 * point.concurrency))
    served = replay.closed_loop(
        timing,
        slots=point.max_num_seqs or DEFAULT_SLOTS,
        workers=point.concurrency,
        requests=requests,
        prompt_tokens=point.prompt_tokens,
        output_tokens=point.output_tokens,
        first_after_boot=point.first_after_boot,
    )
    return figures_of(served)


def figures_of(served: Sequence[replay.Served]) -> Figures:
    """What a client would report of these requests, over the time to the last token."""
    seconds = max(one.ended_ms for one in served) / 1000
    ttfts = [one.ttft_ms for one in served]
    return Figures(
        output_tok_per_s=sum(one.output_tokens for one in served) / seconds,
        ttft_p50_ms=replay.quantile(ttfts, 0.5),
        ttft_p99_ms=replay.quantile(ttfts, 0.99),
        tpot_p50_ms=replay.quantile(
            (one.tpot_ms for one in served if one.tpot_ms is not None), 0.5
        ),
    )


def relative_error(predicted: float | None, actual: float | None) -> float | None:
    """(predicted - actual) / actual; None where either is unknown or the actual is 0."""
    if predicted is None or not actual:
        return None
    return predicted / actual - 1


def emulated_knee(
    timing: TimingModel, point: KneePoint, *, slots: int
) -> tuple[float | None, Figures]:
    """Attainment and figures of an open-loop point, over the arrivals that its client drew.

    The study's client held at most `workers` requests and timed each from its own start, so a
    request that found no worker is judged from when it got one.
    """
    arrivals = replay.poisson(
        point.seed,
        rate=point.rate,
        seconds=point.window_s,
        prompt_tokens=point.input_tokens,
        output_tokens=point.output_tokens,
    )
    served = replay.pooled(
        timing,
        slots=slots,
        workers=point.workers,
        arrivals=arrivals,
        first_after_boot=point.first_after_boot,
    )
    attained = replay.attainment(
        served, ttft_ms=point.ttft_objective_ms, tpot_ms=point.tpot_objective_ms
    )
    return attained, figures_of(served)
