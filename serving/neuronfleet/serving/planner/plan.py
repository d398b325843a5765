"""A plan: whether each variant fits, what it serves the declared load with, and the price."""

import math
from dataclasses import dataclass, replace

from neuronfleet.serving.api.evidence import Figures, ServePoint, gpu_points, serve_points
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.prices import Price, PriceCatalog
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.planner import capacity, staffing
from neuronfleet.serving.planner.ceiling import Ceiling, ceiling
from neuronfleet.serving.planner.timing import timing_for
from neuronfleet.serving.planner.walls import walls
from neuronfleet.serving.replica import points, replay
from neuronfleet.serving.replica.timing import Basis, TimingModel

_GPU_ROWS = {"mi300x": "1x MI300X", "h200": "1x H200"}
"""Catalog name to the accelerator that the second-hand GPU rows name."""
_MOST_REPLAYED = 16
"""Replicas replayed at most: beyond them one queue smooths no more than it does here."""
_LEAST_ARRIVALS, _ARRIVALS_A_REPLICA = 1200, 250
_DEEPEST_QUEUE = 16
"""Clients a slot of a closed loop beyond which nothing is replayed: its latencies say nothing."""
UNKNOWN = Figures(output_tok_per_s=None, ttft_p50_ms=None, ttft_p99_ms=None, tpot_p50_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one variant does with the fleet's load. None is unknown."""

    variant: Variant
    why_not: tuple[str, ...]
    """Walls; empty where it fits."""
    ceiling: Ceiling
    timing: TimingModel | None
    basis: Basis | None
    """How its figures came about; None where nothing is known."""
    source: str | None
    """What its figures rest on, in words."""
    measured: bool = False
    """Whether the figures are those of a run at this very load; else they are simulated."""
    replicas: int | None
    figures: Figures
    """Whole fleet at the declared load."""
    attainment: float | None
    """Simulated share of requests that meet the objective."""
    knee: float | None
    """Simulated requests a second that one replica takes at the target attainment."""
    price: Price | None
    """Of one instance."""

    @property
    def fits(self) -> bool:
        """Whether nothing keeps it from serving the load at all."""
        return not self.why_not

    @property
    def nodes(self) -> int | None:
        """Whole instances that are paid for."""
        if self.replicas is None:
            return None
        return math.ceil(self.replicas / self.variant.replicas_per_node)

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all its instances."""
        if self.price is None or self.nodes is None:
            return None
        return self.price.usd_per_hour * self.nodes

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """Price over output at the declared load; a roofline's output is a bound, not a load."""
        rate = self.figures.output_tok_per_s
        if self.usd_per_hour is None or not rate or self.basis is Basis.ROOFLINE:
            return None
        return self.usd_per_hour / (rate * 3600) * 1e6

    def attains(self, target: float) -> bool:
        """Whether the simulated attainment is known and meets the target."""
        return self.attainment is not None and self.attainment >= target


def plan(fleet: ServingFleet, prices: PriceCatalog) -> tuple[Row, ...]:
    """One row a variant, in the order declared."""
    return tuple(_row(fleet, variant, prices) for variant in fleet.variants)


def _row(fleet: ServingFleet, variant: Variant, prices: PriceCatalog) -> Row:
    facts = fleet.model.architecture
    limit = ceiling(facts, variant)
    blocked = walls(fleet, variant)
    price = prices.find(variant.instance.name, variant.capacity_type, fleet.regions)
    timing = timing_for(facts, variant)
    row = Row(
        variant=variant,
        why_not=blocked,
        ceiling=limit,
        timing=timing,
        basis=None if timing is None else timing.basis,
        source=None if timing is None else timing.source,
        replicas=None,
        figures=UNKNOWN,
        attainment=None,
        knee=None,
        price=price,
    )
    if blocked or timing is None:
        return row
    if not variant.instance.is_neuron:
        return _gpu_row(fleet, row)
    if fleet.traffic.concurrency is not None:
        return _closed_row(fleet, row, timing)
    return _open_row(fleet, row, timing)


def _gpu_row(fleet: ServingFleet, row: Row) -> Row:
    """A GPU: throughput where it was measured at this very load; its latencies are unknown."""
    traffic = fleet.traffic
    accelerator = _GPU_ROWS.get(row.variant.instance.name)
    known = [p for p in gpu_points() if p.accelerator == accelerator and _is_8b(fleet)]
    if traffic.concurrency is None:
        offered = (traffic.requests_per_second or 0.0) * traffic.output_tokens.mean
        # One whole GPU is rented; that it carries the load is known where it was measured to
        # carry more tokens a second than are offered.
        most = max((p.figures.output_tok_per_s or 0.0 for p in known), default=0.0)
        if not most:
            return row
        return _with(row, replicas=math.ceil(offered / most), tok_per_s=offered, measured=False)
    point = next((p for p in known if _same_load(fleet, p)), None)
    if point is None:
        return row
    return _with(row, replicas=1, tok_per_s=point.figures.output_tok_per_s, measured=True)


def _with(row: Row, *, replicas: int, tok_per_s: float | None, measured: bool) -> Row:
    """A GPU's row with its throughput: measured at this load, or taken from another."""
    source = "second-hand throughput that the Llama 3.1 8B study quotes; no latencies"
    if not measured:
        source += "; measured at 1024/1024, taken to carry as many tokens here"
    return replace(
        row,
        basis=Basis.MEASURED if measured else Basis.SCALED,
        source=source,
        measured=measured,
        replicas=replicas,
        figures=replace(UNKNOWN, output_tok_per_s=tok_per_s),
    )


def _is_8b(fleet: ServingFleet) -> bool:
    return fleet.model.architecture is not None and fleet.model.architecture.name == "llama-3.1-8b"


def _same_load(fleet: ServingFleet, point: ServePoint) -> bool:
    """Whether a measured point is the declared closed load."""
    traffic = fleet.traffic
    return (
        point.concurrency == traffic.concurrency
        and point.input_tokens == traffic.input_tokens.mean
        and point.output_tokens == traffic.output_tokens.mean
    )


def _closed_row(fleet: ServingFleet, row: Row, timing: TimingModel) -> Row:
    """A closed loop: its clients spread over the replicas, each replica's loop replayed."""
    traffic, bounds = fleet.traffic, fleet.bounds
    workers, slots = traffic.concurrency or 1, row.ceiling.slots
    wanted = math.ceil(workers / slots)
    replicas = max(1, bounds.min_replicas, min(wanted, bounds.max_replicas))
    each = math.ceil(workers / replicas)
    if each > _DEEPEST_QUEUE * slots:
        return replace(row, replicas=replicas)
    served = replay.closed_loop(
        timing,
        slots=slots,
        workers=each,
        requests=max(32, 8 * each),
        prompt_tokens=round(traffic.input_tokens.mean),
        output_tokens=round(traffic.output_tokens.mean),
        first_after_boot=False,
    )
    figures = points.figures_of(served)
    point = _measured_point(fleet, row, timing) if replicas == 1 else None
    if point is not None:
        row, figures = replace(row, measured=True), point.figures
    elif figures.output_tok_per_s is not None:
        # One replica's throughput times their count; latencies are the same on each.
        all_of_them = figures.output_tok_per_s * workers / each
        figures = replace(figures, output_tok_per_s=all_of_them)
    return _filled(fleet, row, timing, replicas=replicas, figures=figures, served=served)


def _measured_point(fleet: ServingFleet, row: Row, timing: TimingModel) -> ServePoint | None:
    """The measured run of this very load, where the timing model is a measured one."""
    if timing.basis is not Basis.MEASURED or row.variant.instance.name != "inf2.xlarge":
        return None
    facts = fleet.model.architecture
    return next(
        (
            point
            for point in serve_points()
            if facts is not None
            and point.model.lower().startswith(facts.name)
            and point.status == "ok"
            and point.weights == "base"
            and point.max_num_seqs == row.variant.max_num_seqs
            and point.max_model_len == row.variant.max_model_len
            and not row.variant.prefill_buckets
            and _same_load(fleet, point)
        ),
        None,
    )


def _open_row(fleet: ServingFleet, row: Row, timing: TimingModel) -> Row:
    """An open load: the law's replicas, then as many more as the step machine asks."""
    traffic, objective, bounds = fleet.traffic, fleet.objective, fleet.bounds
    rate = traffic.requests_per_second or 0.0
    start = law_replicas(fleet, timing, row.ceiling.slots)
    most = max(bounds.max_replicas, bounds.min_replicas, 1)
    replicas = max(1, bounds.min_replicas, min(start, most))
    while True:
        served = _replayed(fleet, timing, row.ceiling.slots, replicas)
        share = replay.attainment(served, ttft_ms=objective.ttft_ms, tpot_ms=objective.tpot_ms)
        done = share is None or share >= objective.attainment
        if done or replicas >= min(most, 2 * start + 8):
            break
        # An eighth more at a time: a large fleet is found in a few replays.
        replicas = min(most, replicas + max(1, replicas // 8))
    figures = replace(points.figures_of(served), output_tok_per_s=rate * traffic.output_tokens.mean)
    return _filled(fleet, row, timing, replicas=replicas, figures=figures, served=served)


def _replayed(
    fleet: ServingFleet, timing: TimingModel, slots: int, replicas: int
) -> list[replay.Served]:
    """The declared open load on so many replicas; of a large fleet a part with its share of it."""
    traffic = fleet.traffic
    part = min(replicas, _MOST_REPLAYED)
    rate = (traffic.requests_per_second or 0.0) * part / replicas
    arrivals = replay.poisson(
        42,
        rate=rate,
        seconds=max(_LEAST_ARRIVALS, _ARRIVALS_A_REPLICA * part) / rate,
        prompt_tokens=round(traffic.input_tokens.mean),
        output_tokens=round(traffic.output_tokens.mean),
    )
    return replay.open_loop(timing, slots=slots, arrivals=arrivals, replicas=part)


def law_replicas(fleet: ServingFleet, timing: TimingModel, slots: int) -> int:
    """Replicas by law 3 for the declared open load: the larger of slots and prefill share."""
    traffic = fleet.traffic
    rate = traffic.requests_per_second or 0.0
    prompt, output = round(traffic.input_tokens.mean), round(traffic.output_tokens.mean)
    step = timing.step_cost(prompt + output, 1)
    seconds = (timing.prefill_cost(prompt) + (output - 1) * step) / 1000
    by_slots = staffing.replicas_for_slots(rate * seconds, slots)
    share = staffing.prefill_share_rate(timing, fleet.objective, prompt)
    return max(by_slots, math.ceil(rate / share) if share else 1)


def _filled(
    fleet: ServingFleet,
    row: Row,
    timing: TimingModel,
    *,
    replicas: int,
    figures: Figures,
    served: list[replay.Served],
) -> Row:
    objective, traffic = fleet.objective, fleet.traffic
    if timing.basis is Basis.ROOFLINE:
        # A bound of time attains what no device need attain.
        return replace(row, replicas=replicas, figures=figures)
    share = replay.attainment(served, ttft_ms=objective.ttft_ms, tpot_ms=objective.tpot_ms)
    knee = capacity.knee(
        timing,
        slots=row.ceiling.slots,
        objective=objective,
        prompt_tokens=round(traffic.input_tokens.mean),
        output_tokens=round(traffic.output_tokens.mean),
    )
    return replace(row, replicas=replicas, figures=figures, attainment=share, knee=knee)
