"""What a fleet file and its plan ask of the infrastructure: variants, replicas, bytes, prices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from neuronfleet.infra.commands.init import InfraPlan, PlannedFleet, PlannedVariant
from neuronfleet.infra.settings import offers
from neuronfleet.serving.api.documents import read_documents
from neuronfleet.serving.api.fleet import Manifest, ServingFleet
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType
from neuronfleet.serving.planner import ceiling
from neuronfleet.serving.planner.plan import Row, plan

_BOUGHT_FIRST = (CapacityType.CAPACITY_BLOCK, CapacityType.RESERVED)
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A variant that gets no pool."""

    fleet: str
    variant: str
    why: str


def infra_plan(
    file: Path,
    manifest: Manifest,
    catalog: PriceCatalog,
    *,
    name: str,
    region: str | None,
    chosen: Sequence[str],
    now: datetime,
) -> tuple[InfraPlan, list[Left]]:
    """The plan of every fleet, and the variants that were left out of it.

    Raises:
        SpecError: a fleet has no variant to deploy, or `chosen` names one that is none.
    """
    _check_chosen(manifest, chosen)
    spaces = namespaces(file)
    fleets, left = [], []
    for one in manifest.fleets:
        rows, out = choose(one, plan(one, catalog), region, chosen)
        left += out
        fleets.append(
            PlannedFleet(
                name=one.name,
                namespace=spaces.get(one.name, _DEFAULT_NAMESPACE),
                model=one.model.name,
                variants=tuple(_planned(one, row) for row in rows),
            )
        )
    regions = (region,) if region else _regions(manifest)
    infra = InfraPlan(name=name, fleets=tuple(fleets), dated=now, regions=regions, source=file.name)
    return infra, left


def choose(
    fleet: ServingFleet, rows: Sequence[Row], region: str | None, chosen: Sequence[str]
) -> tuple[list[Row], list[Left]]:
    """The rows to deploy: those named, else the best one and others of its type, as its spot twin.

    Best is what attains the objective, then what is bought without a reservation, then what costs
    least a token.
    """
    why = {row.variant.name: _why_not(row, region) for row in rows}
    fitting = [row for row in rows if why[row.variant.name] is None]
    named = [row for row in fitting if row.variant.name in chosen]
    if not fitting or (chosen and not named):
        reasons = "; ".join(f"{one}: {reason}" for one, reason in why.items() if reason)
        raise SpecError(f"fleet {fleet.name}: no variant to deploy ({reasons or 'none was named'})")
    if not chosen:
        best = min(fitting, key=lambda row: _rank(fleet, row))
        named = [row for row in fitting if row.variant.instance == best.variant.instance]
    left = [
        Left(fleet=fleet.name, variant=row.variant.name, why=why[row.variant.name] or _dearer(row))
        for row in rows
        if row not in named
    ]
    return named, left


def namespaces(file: Path) -> Mapping[str, str]:
    """Namespace of each fleet that gives one; the fleet itself does not keep it."""
    found = {}
    for document in read_documents(file.read_text(encoding="utf-8"), str(file)):
        metadata = document.get("metadata") or {}
        if document.get("kind") == "ServingFleet" and metadata.get("namespace"):
            found[metadata["name"]] = metadata["namespace"]
    return found


def bytes_per_device(fleet: ServingFleet, row: Row) -> int | None:
    """Weights and KV cache at the ceiling, on one device; None where the model is unknown.

    Llama 3.1 8B on inf2.xlarge: 15,317 MiB + 32 * 256 MiB on one device.
    """
    facts, variant = fleet.model.architecture, row.variant
    if facts is None:
        return None
    weights = facts.weight_bytes(variant.weight_dtype)
    sequences = row.ceiling.slots * ceiling.sequence_bytes(facts, variant)
    return math.ceil((weights + sequences) / variant.devices)


def _planned(fleet: ServingFleet, row: Row) -> PlannedVariant:
    variant = row.variant
    return PlannedVariant(
        name=variant.name,
        instance_type=variant.instance.name,
        capacity=variant.capacity_type,
        # The peak is where the fleet may scale to: a pool that stops below it would stop the fleet.
        replicas=max(row.replicas or 1, fleet.bounds.max_replicas),
        replicas_per_node=variant.replicas_per_node,
        sdk=variant.pins.sdk,
        ami=variant.pins.ami,
        generation=variant.generation,
        bytes_per_device=bytes_per_device(fleet, row),
        tensor_parallel_degree=variant.tensor_parallel,
        logical_core_size=variant.logical_core_size,
        usd_per_hour=None if row.price is None else row.price.usd_per_hour,
        price_region=None if row.price is None else row.price.region,
        zones=variant.zones,
        reservation=variant.reservation,
    )


def _why_not(row: Row, region: str | None) -> str | None:
    """What keeps a variant from being deployed; None: nothing."""
    name = row.variant.instance.name
    if not row.variant.instance.is_neuron:
        return f"{name} is no Neuron instance"
    if row.why_not:
        return "; ".join(row.why_not)
    if row.replicas is None:
        return "nothing is known of its timing"
    offer = offers.find(name)
    if offer is None:
        return f"no region is known to offer {name}"
    if region is not None and region not in offer.zones:
        return f"{region} does not offer {name}; {', '.join(offer.zones)} do"
    return None


def _rank(fleet: ServingFleet, row: Row) -> tuple[bool, bool, float]:
    dollars = row.usd_per_million_output_tokens
    return (
        not row.attains(fleet.objective.attainment),
        row.variant.capacity_type in _BOUGHT_FIRST,
        math.inf if dollars is None else dollars,
    )


def _dearer(row: Row) -> str:
    dollars = row.usd_per_million_output_tokens
    cost = "unknown price" if dollars is None else f"${dollars:.3f} a million output tokens"
    bought = ", to be reserved first" if row.variant.capacity_type in _BOUGHT_FIRST else ""
    return f"not the best of them ({cost}{bought}); --variant {row.variant.name} takes it"


def _check_chosen(manifest: Manifest, chosen: Sequence[str]) -> None:
    known = dict.fromkeys(one.name for fleet in manifest.fleets for one in fleet.variants)
    for name in chosen:
        if name not in known:
            raise SpecError(f"--variant = {name}, must be one of {', '.join(known)}")


def _regions(manifest: Manifest) -> tuple[str, ...]:
    """Regions in which every fleet may live; empty: any.

    Raises:
        SpecError: residencies have no region in common.
    """
    bound = [fleet for fleet in manifest.fleets if fleet.regions]
    if not bound:
        return ()
    common = [one for one in bound[0].regions if all(one in fleet.regions for fleet in bound)]
    if not common:
        each = "; ".join(f"{fleet.name}: {', '.join(fleet.regions)}" for fleet in bound)
        raise SpecError(f"spec.residency.regions = {each}, must have one in common: an app has one")
    return tuple(common)
