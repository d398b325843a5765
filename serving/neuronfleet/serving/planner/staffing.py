"""Law 3: what a load asks of a fleet, in slots and in prefill share. The larger limit wins."""

import math
from bisect import bisect_left
from dataclasses import dataclass

from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.replica.timing import PromptTooLongError, TimingModel

Counts = dict[str, int]
"""Replicas by variant."""
Rates = dict[str, float]
"""Requests a second that one replica takes, by variant; 0 where unknown or out of reach."""

BETA = 1.65
"""Square-root staffing: slots beyond the load, in standard deviations of a Poisson one. 1.65
keeps one arrival in twenty waiting for a slot."""


def slots_for(load: float, beta: float = BETA) -> float:
    """Slots that hold `load` sequences and their fluctuation: L + beta * sqrt(L).

    L = 48 -> 59.4 slots, L = 480 -> 516.1.
    """
    return load + beta * math.sqrt(load)


def replicas_for_slots(load: float, ceiling: int, beta: float = BETA) -> int:
    """Replicas of `ceiling` slots each that a load needs: 48 slots, L = 49 -> 2 replicas."""
    return math.ceil(slots_for(load, beta) / ceiling - 1e-9)


def prefill_share_rate(timing: TimingModel, objective: Objective, prompt_tokens: int) -> float:
    """Requests a second at which one replica's median TPOT reaches the objective.

    While a prompt is prefilled no decode step runs: TPOT = step / (1 - rate * P), so
    rate = (1 - step / objective) / P. 0 where a lone step is too slow already.
    """
    try:
        prefill_s = timing.prefill_cost(prompt_tokens) / 1000
    except PromptTooLongError:
        return 0.0
    step = timing.step_cost(prompt_tokens, 1)
    return max(0.0, 1 - step / objective.tpot_ms) / prefill_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTable:
    """Requests a second that one replica takes at the target attainment, by request shape.

    Found beforehand on the step machine in virtual time (see `capacity`), so that the medians of
    the law are tightened to the target and `decide` only looks up.
    """

    prompt_tokens: tuple[int, ...]
    """Ascending prompt lengths."""
    output_tokens: tuple[int, ...]
    """Ascending output lengths."""
    rates: tuple[tuple[float, ...], ...]
    """rates[prompt][output], requests a second; 0 where the objective is out of reach."""

    def rate(self, prompt_tokens: float, output_tokens: float) -> float:
        """The rate of the next longer shape in the table; past its end less, in proportion."""
        beyond = max(1.0, prompt_tokens / self.prompt_tokens[-1]) * max(
            1.0, output_tokens / self.output_tokens[-1]
        )
        row = min(bisect_left(self.prompt_tokens, prompt_tokens), len(self.prompt_tokens) - 1)
        column = min(bisect_left(self.output_tokens, output_tokens), len(self.output_tokens) - 1)
        return self.rates[row][column] / beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a fleet must hold at once."""

    slots: float
    rate: float
    """Requests a second; 0 where unknown: the slots alone then decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaffedVariant:
    """What `decide` knows of a variant."""

    name: str
    ceiling: int
    boot_p90_s: float
    """P90 of its learned boot time."""
    table: CapacityTable
    usd_per_hour: float | None = None
    """Price of one replica; None is unknown, and such a variant is grown last."""
    most: int | None = None
    """Replicas that capacity allows; None while nothing limits it."""

    def rate(self, prompt_tokens: float | None, output_tokens: float | None) -> float | None:
        """Requests a second of one replica at these lengths; None where they are unknown."""
        if prompt_tokens is None or output_tokens is None:
            return None
        return self.table.rate(prompt_tokens, output_tokens)

    def by_price(self, units: float) -> tuple[float, str]:
        """What orders variants: dollars a unit of what they give, unknown prices last."""
        price = float("inf") if self.usd_per_hour is None else self.usd_per_hour
        return price / units, self.name


def satisfied(
    need: Need, counts: Counts, variants: tuple[StaffedVariant, ...], rates: Rates
) -> bool:
    """Whether these replicas hold the need. Where no rate is known the slots alone decide."""
    slots = sum(counts[v.name] * v.ceiling for v in variants)
    if slots + 1e-9 < need.slots:
        return False
    if not need.rate or not any(rates.values()):
        return True
    return sum(counts[v.name] * rates[v.name] for v in variants) + 1e-9 >= need.rate


def grown(
    need: Need,
    have: Counts,
    variants: tuple[StaffedVariant, ...],
    rates: Rates,
    *,
    low: int,
    high: int,
) -> Counts:
    """What is there and as many of the cheapest variant as the need and `low` ask, up to `high`."""
    counts = dict(have)
    total = sum(counts.values())
    while total < high and (total < low or not satisfied(need, counts, variants, rates)):
        choice = _next_to_grow(need, counts, variants, rates)
        if choice is None:
            break
        counts[choice] += 1
        total += 1
    return counts


def _next_to_grow(
    need: Need, counts: Counts, variants: tuple[StaffedVariant, ...], rates: Rates
) -> str | None:
    """The cheapest variant with capacity left that helps with what is missing; None if none."""
    open_ones = [v for v in variants if v.most is None or counts[v.name] < v.most]
    slots = sum(counts[v.name] * v.ceiling for v in variants)
    if need.rate and slots + 1e-9 >= need.slots and any(rates.values()):
        # Prefill binds: dollars a request count, and what takes no request does not help.
        helping = [v for v in open_ones if rates[v.name] > 0]
        by_rate = min(helping, key=lambda v: v.by_price(rates[v.name]), default=None)
        return None if by_rate is None else by_rate.name
    by_slot = min(open_ones, key=lambda v: v.by_price(v.ceiling), default=None)
    return None if by_slot is None else by_slot.name


def _dearest(variants: tuple[StaffedVariant, ...]) -> list[StaffedVariant]:
    return sorted(variants, key=lambda v: v.by_price(v.ceiling), reverse=True)


def shed(
    need: Need,
    have: Counts,
    booting: Counts,
    variants: tuple[StaffedVariant, ...],
    rates: Rates,
    *,
    low: int,
) -> Counts:
    """What is there without what the need and `low` can do without.

    Booting replicas of any variant go first, the dearest before the cheaper; a serving one goes
    only where none is booting any more, since until those serve it is all that does.
    """
    counts, left = dict(have), dict(booting)
    for stage in (left, counts):
        if stage is counts and any(left.values()):
            break
        for variant in _dearest(variants):
            while stage.get(variant.name, 0) > 0 and sum(counts.values()) > low:
                fewer = counts | {variant.name: counts[variant.name] - 1}
                if not satisfied(need, fewer, variants, rates):
                    break
                counts[variant.name] -= 1
                if stage is left:
                    left[variant.name] -= 1
    return counts


def cut(
    have: Counts, booting: Counts, variants: tuple[StaffedVariant, ...], *, high: int
) -> Counts:
    """What is there, less what is beyond `high`: booting replicas first, the dearest first."""
    counts, left = dict(have), dict(booting)
    for stage in (left, counts):
        for variant in _dearest(variants):
            surplus = max(0, sum(counts.values()) - high)
            gone = min(stage.get(variant.name, 0), surplus)
            counts[variant.name] -= gone
            if stage is left:
                left[variant.name] -= gone
    return counts
