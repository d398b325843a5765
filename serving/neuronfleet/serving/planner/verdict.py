"""What the evidence says of a workload on a chip, in a sentence, and where another chip wins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neuronfleet.serving.api.evidence import gpu_points
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.planner import capacity
from neuronfleet.serving.planner.plan import Row
from neuronfleet.serving.planner.walls import contributed
from neuronfleet.serving.replica import roofline
from neuronfleet.serving.replica.timing import Basis

_EQUAL = 1.05
"""Costs within 5 % are called equal: one run a point has a noise floor of 2.4 %."""
_BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """From how much traffic on another chip is cheaper, and by how much."""

    winner: str
    """Variant that is cheaper from there on."""
    loser: str
    from_requests_per_second: float | None
    """None for a closed load, which has no rate to grow."""
    ratio: float
    """The loser's cost over the winner's, there."""
    latencies_known: bool
    """Whether the winner's latencies were ever measured."""


def crossover(fleet: ServingFleet, row: Row, rows: Sequence[Row]) -> Crossover | None:
    """Where the cheapest row of the declared load loses to this one, or, of its own, to any.

    None where nothing crosses, or a price or a capacity is not known.
    """
    priced = [one for one in rows if one.fits and one.usd_per_million_output_tokens is not None]
    if row not in priced:
        return None
    if fleet.traffic.requests_per_second is None:
        return _closed_crossover(row, priced)
    best = min(priced, key=_dollars)
    rivals = [one for one in priced if one is not best] if row is best else [row]
    # Chips that were measured speak before those that are scaled.
    found = [crossing for one in rivals if (crossing := _open_crossover(fleet, best, one))]
    measured = [c for c in found if _is_measured(c.winner, rivals)] or found
    return min(measured, key=lambda one: one.from_requests_per_second or 0.0, default=None)


def _is_measured(name: str, rows: Sequence[Row]) -> bool:
    """Whether this variant's throughput was ever measured, at whatever load."""
    return any(
        one.variant.name == name
        and (one.basis is Basis.MEASURED or not one.variant.instance.is_neuron)
        for one in rows
    )


def _closed_crossover(row: Row, priced: Sequence[Row]) -> Crossover | None:
    best = min(priced, key=_dollars)
    ratio = _dollars(row) / _dollars(best)
    if best is row or ratio < _EQUAL:
        return None
    return Crossover(
        winner=best.variant.name,
        loser=row.variant.name,
        from_requests_per_second=None,
        ratio=ratio,
        latencies_known=best.figures.ttft_p50_ms is not None,
    )


def _open_crossover(fleet: ServingFleet, cheap: Row, dear: Row) -> Crossover | None:
    """From where instances of `cheap` cost more than one of `dear`, which must still carry it."""
    if cheap.price is None or dear.price is None or not cheap.knee:
        return None
    small, large = cheap.price.usd_per_hour, dear.price.usd_per_hour
    if small >= large:
        return None
    # From where it costs more by more than what counts as equal.
    instances = math.ceil(_EQUAL * large / small)
    rate = _pool(fleet, cheap, (instances - 1) * cheap.variant.replicas_per_node)
    if _carries(fleet, dear) <= rate:
        return None
    return Crossover(
        winner=dear.variant.name,
        loser=cheap.variant.name,
        from_requests_per_second=rate,
        ratio=instances * small / large,
        latencies_known=dear.figures.ttft_p50_ms is not None,
    )


def _pool(fleet: ServingFleet, row: Row, replicas: int) -> float:
    """Requests a second that several replicas behind one queue take at the target, simulated.

    More than the knee of one times their count: one queue smooths what comes.
    """
    if row.timing is None:
        return 0.0
    return capacity.knee(
        row.timing,
        slots=row.ceiling.slots,
        objective=fleet.objective,
        prompt_tokens=round(fleet.traffic.input_tokens.mean),
        output_tokens=round(fleet.traffic.output_tokens.mean),
        replicas=replicas,
    )


def _carries(fleet: ServingFleet, row: Row) -> float:
    """Requests a second of one instance: simulated at the target, or by measured throughput."""
    if row.knee is not None:
        return row.knee * row.variant.replicas_per_node
    most = max(
        point.figures.output_tok_per_s or 0.0
        for point in gpu_points()
        if row.variant.instance.name.upper() in point.accelerator
    )
    return most / fleet.traffic.output_tokens.mean


def verdict(fleet: ServingFleet, row: Row, rows: Sequence[Row]) -> str:
    """One sentence: blocked, unknown, cheaper elsewhere by x, or how well it fits."""
    if not row.fits:
        return f"blocked: {'; '.join(row.why_not)}"
    if row.basis is Basis.ROOFLINE:
        return _on_paper(fleet, row)
    if row.usd_per_million_output_tokens is None:
        return f"unknown: {_missing(row)}"
    return _priced(fleet, row, rows)


def _dollars(row: Row) -> float:
    return row.usd_per_million_output_tokens or math.inf


def _missing(row: Row) -> str:
    if row.timing is None:
        return "the model's architecture is not known, so neither memory nor time is"
    if row.price is None:
        return f"no {row.variant.capacity_type} price of {row.variant.instance.name} is known"
    if row.variant.instance.is_neuron:
        return f"far more clients than {row.replicas} replicas have slots; allow more"
    return f"no throughput of {row.variant.instance.name} at this load was measured"


def _on_paper(fleet: ServingFleet, row: Row) -> str:
    """What a roofline allows to be said: it fits, and no more than so much."""
    facts, variant = fleet.model.architecture, row.variant
    if facts is None:
        return f"unknown: {_missing(row)}"
    weights = f"{facts.weight_bytes(variant.weight_dtype) / 1e9:.0f} GB of weights"
    if facts.published_weight_gb is not None:
        weights += f" by count ({facts.published_weight_gb:g} as published)"
    memory = (variant.instance.hbm_gib or 0) * variant.node_share
    context = min(variant.max_model_len, 4096)
    bounds = []
    for batch in (b for b in _BATCHES if b <= variant.max_num_seqs):
        step = roofline.step_ms(facts, variant, batch, context)
        if step is not None:
            bounds.append(f"{batch}: {batch * 1000 / step:.0f}")
    port = "; served by a contributed port only" if contributed(fleet, variant) else ""
    return (
        f"fits on paper: {weights} of {memory:.0f} GiB{port}; nothing measured; roofline, tok/s "
        f"by batch at {context} tokens: {', '.join(bounds)} (a bound, not a prediction)"
    )


def _priced(fleet: ServingFleet, row: Row, rows: Sequence[Row]) -> str:
    best = min((one for one in rows if one.fits), key=_dollars)
    ratio = _dollars(row) / _dollars(best)
    held = _held(fleet, row)
    if best is not row and ratio >= _EQUAL:
        unknown = "" if best.figures.ttft_p50_ms is not None else ", its latency unknown"
        words = f"cheaper elsewhere by {ratio:.1f}x ({best.variant.name}{unknown}); {held}"
    elif row.attains(fleet.objective.attainment):
        words = f"{'strong fit' if row.basis is Basis.MEASURED else 'works'}: cheapest; {held}"
    else:
        words = f"reasonable: cheapest; {held}"
    return words + _crossing(crossover(fleet, row, rows))


def _held(fleet: ServingFleet, row: Row) -> str:
    target = fleet.objective.attainment
    if row.attainment is None:
        return "whether it holds the objective is unknown"
    verb = "holds" if row.attainment >= target else "misses"
    most = max(fleet.bounds.max_replicas, fleet.bounds.min_replicas)
    allowed = f" with the {most} replica{'s' if most > 1 else ''} allowed"
    limit = allowed if verb == "misses" and row.replicas == most else ""
    knee = f"; one replica's knee {row.knee:.2f} req/s simulated" if row.knee else ""
    share = f"{row.attainment:.0%} simulated, target {target:.0%}"
    return f"{verb} the objective{limit} ({share}){knee}"


def _crossing(crossing: Crossover | None) -> str:
    if crossing is None or crossing.from_requests_per_second is None:
        return ""
    unknown = "" if crossing.latencies_known else " by price; its latency is unknown"
    return (
        f"; above {crossing.from_requests_per_second:.1f} req/s {crossing.winner} wins over "
        f"{crossing.loser} by {crossing.ratio:.2f}x and more{unknown}"
    )
