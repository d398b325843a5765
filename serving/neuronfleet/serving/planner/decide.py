"""The decision that scales a fleet: one pure function of spec, observation and now.

Precedence: the user's bounds, then the unknown, then the law. A fleet grows on any reading and
shrinks only on fresh metrics that cover every live replica over the whole window.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from neuronfleet.serving.api.fleet import Forecast, Scaling
from neuronfleet.serving.planner.observation import Observation, Origin, Phase, Sample
from neuronfleet.serving.planner.staffing import (
    BETA,
    Counts,
    Need,
    Rates,
    StaffedVariant,
    cut,
    grown,
    satisfied,
    shed,
    slots_for,
)

SHRINK_BOOTS = 1.0
"""A fleet shrinks after it needed less for this many P90 boot times: what goes costs one to get
back."""
_LEAST_WINDOW_S = 60.0
_PEAK_SHARE = 0.95
"""Quantile of the window's loads that is staffed for; the latest load counts in any case."""


class Reason(StrEnum):
    """Why a fleet has the size that was decided."""

    STEADY = "Steady"
    SLOTS = "SlotsNeeded"
    PREFILL = "PrefillNeeded"
    BELOW_MINIMUM = "BelowMinimum"
    ABOVE_MAXIMUM = "AboveMaximum"
    AT_MAXIMUM = "AtMaximum"
    LESS_LOAD = "LessLoad"
    IDLE = "Idle"
    UNKNOWN = "MetricsUnknown"
    WATCHING = "WatchingBeforeShrink"
    NO_CAPACITY = "NoCapacity"
    BUDGET = "BudgetLimited"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaffingSpec:
    """What `decide` needs of a fleet, prepared beforehand."""

    fleet: str
    bounds: Scaling
    variants: tuple[StaffedVariant, ...]
    metrics_max_age_s: float
    beta: float = BETA


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The numbers that a decision rests on; None is unknown."""

    load: float | None
    """Peak sequences in flight, queued and refused that were staffed for."""
    slots_needed: float | None
    arrivals_per_s: float | None
    rate_per_replica: float | None
    """Requests a second that one replica of the first variant takes at the attainment."""
    current: int
    """Replicas serving or booting."""
    sample_age_s: float | None
    origin: Origin | None
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How many replicas each variant should have, and why."""

    fleet: str
    desired: Counts
    """Replicas serving or booting, by variant."""
    reason: Reason
    inputs: Inputs

    @property
    def total(self) -> int:
        """Replicas of all variants."""
        return sum(self.desired.values())


def decide(spec: StaffingSpec, seen: Observation, now: float) -> Decision:
    """The size that a fleet should have at `now`, seconds on the fleet's clock."""
    have, booting = _have(spec, seen), _have(spec, seen, Phase.BOOTING)
    usable = [s for s in seen.samples if now - _window(spec) <= s.at_s <= now]
    latest = usable[-1] if usable else None
    rates = _rates(spec, latest)
    low = _low(spec, seen, usable, now)
    high = max(spec.bounds.max_replicas, spec.bounds.min_replicas)
    need = _with_standby(spec, rates, _need(spec, seen, usable, now))

    within = cut(have, booting, spec.variants, high=high)
    desired = grown(need, within, spec.variants, rates, low=low, high=high)
    reason = _reason(spec, have, desired, need, rates)
    if desired == have:
        blocked = _forbids_shrink(spec, seen, usable, now)
        fewer = shed(need, have, booting, spec.variants, rates, low=low) != have
        if blocked is None and fewer:
            calm = _with_standby(spec, rates, _highest_need(spec, seen, usable))
            desired = shed(calm, have, booting, spec.variants, rates, low=low)
            if desired != have:
                reason = Reason.LESS_LOAD if sum(desired.values()) else Reason.IDLE
        elif blocked is not None and (fewer or blocked is Reason.UNKNOWN):
            reason = blocked
    return Decision(
        fleet=spec.fleet,
        desired=desired,
        reason=reason,
        inputs=Inputs(
            load=_peak(spec, seen, now),
            slots_needed=need.slots if latest else None,
            arrivals_per_s=need.rate or None,
            rate_per_replica=rates.get(spec.variants[0].name) or None,
            current=sum(have.values()),
            sample_age_s=now - latest.at_s if latest else None,
            origin=latest.origin if latest else None,
            window_s=_window(spec),
        ),
    )


def _have(spec: StaffingSpec, seen: Observation, *phases: Phase) -> Counts:
    """Replicas in these phases by variant; serving or on their way where none is named."""
    wanted = phases or (Phase.BOOTING, Phase.SERVING)
    counts = {variant.name: 0 for variant in spec.variants}
    for replica in seen.replicas:
        if replica.phase in wanted and replica.variant in counts:
            counts[replica.variant] += 1
    return counts


def _boot(spec: StaffingSpec) -> float:
    return max(variant.boot_p90_s for variant in spec.variants)


def _window(spec: StaffingSpec) -> float:
    return max(_LEAST_WINDOW_S, SHRINK_BOOTS * _boot(spec))


def _rates(spec: StaffingSpec, latest: Sample | None) -> Rates:
    """Requests a second of one replica at the lengths last seen; 0 where they are unknown."""
    if latest is None:
        return dict.fromkeys((v.name for v in spec.variants), 0.0)
    return {
        variant.name: variant.rate(latest.prompt_tokens, latest.output_tokens) or 0.0
        for variant in spec.variants
    }


def _load(seen: Observation, sample: Sample) -> float:
    """Sequences in flight, queued and refused; readings of deleted replicas count for nothing."""
    held = sum(
        count
        for name, count in sample.in_flight.items()
        if sample.at_s < seen.gone.get(name, math.inf)
    )
    # Little's law: r refused a second would have held r * seconds slots.
    refused = sample.refused_per_s * (sample.seconds_per_request or 1.0)
    return held + sample.queued + refused


def _projected(loads: Sequence[float]) -> float:
    """The load one boot time from now, if the trend of the last one goes on; 0 without a trend.

    The later half's mean less the earlier's is half a boot of growth, and the later half's middle
    lies a quarter of a boot back: 1.25 boots on are 2.5 such steps. Less than one standard
    deviation of a Poisson load is noise, and no trend more than doubles a load.
    """
    half = len(loads) // 2
    if half < 2:
        return 0.0
    early, late = sum(loads[:half]) / half, sum(loads[half:]) / (len(loads) - half)
    if late - early <= math.sqrt(early):
        return 0.0
    return min(late + 2.5 * (late - early), 2 * late)


def _peak(spec: StaffingSpec, seen: Observation, now: float) -> float | None:
    """The load to staff for at `now`: the last boot time's peak, or where its trend leads."""
    span = max(_boot(spec), _LEAST_WINDOW_S)
    loads = [_load(seen, sample) for sample in seen.samples if now - span <= sample.at_s <= now]
    if not loads:
        return None
    latest = loads[-1]
    peak = max(latest, sorted(loads)[min(len(loads) - 1, int(_PEAK_SHARE * len(loads)))])
    if spec.bounds.forecast is Forecast.NONE:
        return peak
    return max(peak, _projected(loads))


def _need(spec: StaffingSpec, seen: Observation, usable: Sequence[Sample], now: float) -> Need:
    peak = _peak(spec, seen, now)
    if peak is None:
        return Need(slots=0.0, rate=0.0)
    rates = [s.arrivals_per_s for s in usable[-3:] if s.arrivals_per_s is not None]
    rate = sum(rates) / len(rates) if rates else 0.0
    return Need(slots=slots_for(peak, spec.beta), rate=rate)


def _highest_need(spec: StaffingSpec, seen: Observation, usable: Sequence[Sample]) -> Need:
    """The most that was staffed for within the window: what a smaller fleet must still hold.

    Trends count as they were seen then: what one call started the next does not cancel.
    """
    loads = [_load(seen, sample) for sample in usable]
    peaks = [_peak(spec, seen, sample.at_s) or 0.0 for sample in usable]
    rates = [s.arrivals_per_s for s in usable if s.arrivals_per_s is not None]
    highest = max(*loads, *peaks)
    return Need(slots=slots_for(highest, spec.beta), rate=max(rates, default=0.0))


def _with_standby(spec: StaffingSpec, rates: Rates, need: Need) -> Need:
    """The need and the standby replicas beside it, in units of the cheapest variant."""
    if not spec.bounds.standby:
        return need
    cheapest = min(spec.variants, key=lambda v: v.by_price(v.ceiling))
    spare = spec.bounds.standby
    return Need(
        slots=need.slots + spare * cheapest.ceiling,
        rate=need.rate + spare * rates[cheapest.name] if need.rate else 0.0,
    )


def _low(spec: StaffingSpec, seen: Observation, usable: Sequence[Sample], now: float) -> int:
    """Fewest replicas: the user's minimum, and 1 until a fleet was idle for idleAfter."""
    bounds = spec.bounds
    if bounds.min_replicas > 0 or not sum(_have(spec, seen).values()):
        return bounds.min_replicas
    after = bounds.idle_after_s
    if after is None or not usable:
        return 1
    lately = [sample for sample in seen.samples if now - after <= sample.at_s <= now]
    covered = now - max(seen.watched_since_s, seen.samples[0].at_s) >= after
    idle = covered and bool(lately) and all(_load(seen, sample) == 0 for sample in lately)
    return 0 if idle else 1


def _forbids_shrink(
    spec: StaffingSpec, seen: Observation, usable: Sequence[Sample], now: float
) -> Reason | None:
    """Why a fleet may not shrink now: its metrics say too little, or not for long enough."""
    oldest, age = now - _window(spec), spec.metrics_max_age_s
    metrics = [sample for sample in usable if sample.origin is Origin.METRICS]
    if not metrics or now - metrics[-1].at_s > age:
        return Reason.UNKNOWN
    if any(name not in metrics[-1].in_flight for name in seen.names(Phase.SERVING)):
        return Reason.UNKNOWN
    if max(seen.watched_since_s, seen.samples[0].at_s) > oldest:
        return Reason.WATCHING
    times = [oldest, *(sample.at_s for sample in metrics)]
    if any(later - earlier > age for earlier, later in pairwise(times)):
        return Reason.UNKNOWN
    return None


def _reason(spec: StaffingSpec, have: Counts, desired: Counts, need: Need, rates: Rates) -> Reason:
    """Why the fleet is not smaller than `desired`."""
    before, after = sum(have.values()), sum(desired.values())
    bounds = spec.bounds
    high = max(bounds.max_replicas, bounds.min_replicas)
    if before > high:
        return Reason.ABOVE_MAXIMUM
    if not satisfied(need, desired, spec.variants, rates):
        return Reason.AT_MAXIMUM if after == high else Reason.NO_CAPACITY
    if after == before:
        return Reason.STEADY
    if satisfied(need, have, spec.variants, rates):
        return Reason.BELOW_MINIMUM
    had_slots = sum(have[v.name] * v.ceiling for v in spec.variants)
    return Reason.SLOTS if had_slots < need.slots else Reason.PREFILL
