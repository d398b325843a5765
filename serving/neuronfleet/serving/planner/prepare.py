"""Prepare what `decide` reads of a variant: its ceiling, price and capacity table."""

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.planner import capacity
from neuronfleet.serving.planner.staffing import CapacityTable, StaffedVariant
from neuronfleet.serving.planner.timing import timing_for

NO_TABLE = CapacityTable(prompt_tokens=(1,), output_tokens=(1,), rates=((0.0,),))
"""A variant without a timing model: slots alone staff it."""


def price_of(variant: Variant, fleet: ServingFleet, prices: PriceCatalog) -> float | None:
    """Dollars an hour of one replica's share of its instance; None is unknown."""
    price = prices.find(variant.instance.name, variant.capacity_type, fleet.regions)
    return None if price is None else price.usd_per_hour / variant.replicas_per_node


def table_of(fleet: ServingFleet, variant: Variant, slots: int) -> CapacityTable:
    """The variant's capacity table (seconds of simulation)."""
    timing = timing_for(fleet.model.architecture, variant)
    if timing is None:
        return NO_TABLE
    prompts, outputs = capacity.declared_grid(fleet, timing.prefill.tokens[-1] - 1)
    return capacity.table_for(
        timing,
        slots=slots,
        objective=fleet.objective,
        prompt_tokens=prompts,
        output_tokens=outputs,
    )


def staffed(
    fleet: ServingFleet,
    variant: Variant,
    *,
    slots: int,
    boot_s: float,
    prices: PriceCatalog,
    table: CapacityTable | None = None,
) -> StaffedVariant:
    """What `decide` knows of a variant; the table is made where none is given."""
    return StaffedVariant(
        name=variant.name,
        ceiling=slots,
        boot_p90_s=boot_s,
        table=table_of(fleet, variant, slots) if table is None else table,
        usd_per_hour=price_of(variant, fleet, prices),
    )
