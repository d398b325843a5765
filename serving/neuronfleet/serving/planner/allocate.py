"""Several fleets in one budget: a second pure function, after each fleet's own decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neuronfleet.serving.planner.decide import Decision, Reason
from neuronfleet.serving.planner.staffing import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A fleet's decision with what it costs."""

    decision: Decision
    serving: Counts
    """Replicas serving now, by variant."""
    booting: Counts
    usd_per_hour: Mapping[str, float | None]
    """Price of one replica, by variant; an unknown price is granted nothing new."""
    leaving_usd_per_hour: float = 0.0
    """What its draining replicas still cost."""


def allocate(claims: Sequence[Claim], budget_usd_per_hour: float) -> list[Decision]:
    """The decisions, cut so that together they never cost more than the budget.

    Claims come highest priority first. What runs already and is still wanted is kept before
    anything new is granted; new replicas are then granted one at a time, to the fleet that has
    the smallest part of what it wants.
    """
    left = budget_usd_per_hour - sum(claim.leaving_usd_per_hour for claim in claims)
    granted: list[Counts] = []
    for claim in claims:
        kept, left = _keep(claim, left)
        granted.append(kept)
    while (choice := _next(claims, granted, left)) is not None:
        index, variant, price = choice
        granted[index] = granted[index] | {variant: granted[index][variant] + 1}
        left -= price
    return [_decision(claim, counts) for claim, counts in zip(claims, granted, strict=True)]


def _keep(claim: Claim, left: float) -> tuple[Counts, float]:
    """What runs and is wanted, as far as the money goes: serving replicas before booting ones."""
    kept: Counts = dict.fromkeys(claim.decision.desired, 0)
    for stage in (claim.serving, claim.booting):
        for variant, wanted in claim.decision.desired.items():
            count = min(wanted - kept[variant], stage.get(variant, 0))
            price = claim.usd_per_hour.get(variant)
            if price:
                count = min(count, max(0, int((left + 1e-9) / price)))
                left -= count * price
            # At an unknown price it runs by someone's choice; its cost is unknown, not zero.
            kept[variant] += count
    return kept, left


def _next(
    claims: Sequence[Claim], granted: Sequence[Counts], left: float
) -> tuple[int, str, float] | None:
    """The fleet that lacks most of what it wants, and its cheapest variant still wanted."""
    best: tuple[float, int, float, str] | None = None
    for index, (claim, counts) in enumerate(zip(claims, granted, strict=True)):
        wanted = claim.decision.total
        for variant, count in claim.decision.desired.items():
            price = claim.usd_per_hour.get(variant)
            if counts[variant] >= count or price is None or price > left + 1e-9:
                continue
            choice = (sum(counts.values()) / wanted, index, price, variant)
            best = choice if best is None else min(best, choice)
    return None if best is None else (best[1], best[3], best[2])


def _decision(claim: Claim, counts: Counts) -> Decision:
    if counts == claim.decision.desired:
        return claim.decision
    return replace(claim.decision, desired=counts, reason=Reason.BUDGET)
