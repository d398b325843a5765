"""Prepare what `decide` reads: each variant's ceiling, price and capacity table."""

from dataclasses import replace

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.roster import Roster
from neuronfleet.serving.planner import capacity
from neuronfleet.serving.planner.decide import StaffingSpec
from neuronfleet.serving.planner.staffing import CapacityTable, StaffedVariant
from neuronfleet.serving.planner.timing import timing_for

_UNKNOWN = CapacityTable(prompt_tokens=(1,), output_tokens=(1,), rates=((0.0,),))
"""A variant without a timing model: slots alone staff it."""


def price_of(variant: Variant, fleet: ServingFleet, prices: PriceCatalog) -> float | None:
    """Dollars an hour of one replica's share of its instance; None is unknown."""
    price = prices.find(variant.instance.name, variant.capacity_type, fleet.regions)
    return None if price is None else price.usd_per_hour / variant.replicas_per_node


def staffing_spec(fleet: ServingFleet, engine: Engine, prices: PriceCatalog) -> StaffingSpec:
    """Everything that does not change while the fleet runs (seconds of simulation).

    Raises:
        SpecError: no variant of the fleet can run here.
    """
    running = [variant for variant in fleet.variants if engine.runs(fleet, variant)]
    if not running:
        names = ", ".join(variant.name for variant in fleet.variants)
        raise SpecError(
            f"variants of {fleet.name} = {names}, must hold one that can run here: a Neuron "
            "variant that `neuronfleet plan` does not call blocked or on paper"
        )
    return StaffingSpec(
        fleet=fleet.name,
        bounds=fleet.bounds,
        variants=tuple(_staffed(fleet, variant, engine, prices) for variant in running),
        metrics_max_age_s=fleet.metrics_max_age_s,
    )


def with_boots(spec: StaffingSpec, roster: Roster) -> StaffingSpec:
    """The same with the boot times learned so far."""
    variants = tuple(
        replace(variant, boot_p90_s=roster.boots[variant.name].p90_s) for variant in spec.variants
    )
    return replace(spec, variants=variants)


def _staffed(
    fleet: ServingFleet, variant: Variant, engine: Engine, prices: PriceCatalog
) -> StaffedVariant:
    timing = timing_for(fleet.model.architecture, variant)
    ceiling = engine.ceiling(fleet, variant)
    table = _UNKNOWN
    if timing is not None:
        prompts, outputs = capacity.declared_grid(fleet, timing.prefill.tokens[-1] - 1)
        table = capacity.table_for(
            timing,
            slots=ceiling,
            objective=fleet.objective,
            prompt_tokens=prompts,
            output_tokens=outputs,
        )
    return StaffedVariant(
        name=variant.name,
        ceiling=ceiling,
        boot_p90_s=engine.boot_s(variant),
        table=table,
        usd_per_hour=price_of(variant, fleet, prices),
    )
