"""Prepare what `decide` reads: each variant's ceiling, price and capacity table."""

from dataclasses import replace

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.roster import Roster
from neuronfleet.serving.planner.decide import StaffingSpec
from neuronfleet.serving.planner.prepare import staffed


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
        variants=tuple(
            staffed(
                fleet,
                variant,
                slots=engine.ceiling(fleet, variant),
                boot_s=engine.boot_s(variant),
                prices=prices,
            )
            for variant in running
        ),
        metrics_max_age_s=fleet.metrics_max_age_s,
    )


def with_boots(spec: StaffingSpec, roster: Roster) -> StaffingSpec:
    """The same with the boot times learned so far."""
    variants = tuple(
        replace(variant, boot_p90_s=roster.boots[variant.name].p90_s) for variant in spec.variants
    )
    return replace(spec, variants=variants)
