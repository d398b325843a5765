"""What one replica takes at the target attainment, by running its step machine in virtual time."""

from collections.abc import Sequence
from functools import lru_cache

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.planner.staffing import CapacityTable
from neuronfleet.serving.replica import replay
from neuronfleet.serving.replica.timing import TimingModel

_SEEDS = (42, 43)
_REQUESTS = 600
"""Arrivals a trial: at 95 % their share has a standard error of 0.9 points."""
_HALVINGS = 7
"""Bisection steps: the rate is known to 1 % of its range."""


def attainment_at(
    timing: TimingModel,
    *,
    slots: int,
    objective: Objective,
    rate: float,
    prompt_tokens: int,
    output_tokens: int,
    replicas: int = 1,
) -> float:
    """Simulated attainment of Poisson arrivals at `rate` requests a second."""
    shares = []
    for seed in _SEEDS:
        arrivals = replay.poisson(
            seed,
            rate=rate,
            seconds=_REQUESTS / rate,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        served = replay.open_loop(timing, slots=slots, arrivals=arrivals, replicas=replicas)
        share = replay.attainment(served, ttft_ms=objective.ttft_ms, tpot_ms=objective.tpot_ms)
        shares.append(share or 0.0)
    return sum(shares) / len(shares)


@lru_cache(maxsize=1024)
def knee(
    timing: TimingModel,
    *,
    slots: int,
    objective: Objective,
    prompt_tokens: int,
    output_tokens: int,
    replicas: int = 1,
) -> float:
    """Highest rate, requests a second, at which the target is attained; 0 if none is.

    Bisected below the rate that the device could carry at all: a slot's time and the prefill.
    """
    if timing.prefill.index(prompt_tokens) is None:
        return 0.0
    prefill = timing.prefill_cost(prompt_tokens) / 1000
    decode = (output_tokens - 1) * timing.step_cost(prompt_tokens, 1) / 1000
    high = replicas * min(slots / (prefill + decode), 1 / prefill)
    low = 0.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        attained = attainment_at(
            timing,
            slots=slots,
            objective=objective,
            rate=rate,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            replicas=replicas,
        )
        low, high = (rate, high) if attained >= objective.attainment else (low, rate)
    return low


def table_for(
    timing: TimingModel,
    *,
    slots: int,
    objective: Objective,
    prompt_tokens: Sequence[int],
    output_tokens: Sequence[int],
) -> CapacityTable:
    """Knees of every shape in a grid."""
    prompts, outputs = tuple(sorted(set(prompt_tokens))), tuple(sorted(set(output_tokens)))
    rates = tuple(
        tuple(
            knee(
                timing,
                slots=slots,
                objective=objective,
                prompt_tokens=prompt,
                output_tokens=output,
            )
            for output in outputs
        )
        for prompt in prompts
    )
    return CapacityTable(prompt_tokens=prompts, output_tokens=outputs, rates=rates)


def declared_grid(fleet: ServingFleet, longest_prompt: int) -> tuple[list[int], list[int]]:
    """Shapes around the declared mean: half, as declared, and twice as long."""
    prompt, output = fleet.traffic.input_tokens.mean, fleet.traffic.output_tokens.mean
    prompts = [min(longest_prompt, max(1, round(prompt * k))) for k in (0.5, 1, 2)]
    return prompts, [max(2, round(output * k)) for k in (0.5, 1, 2)]
