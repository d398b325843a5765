"""The settings file that a plan needs: `neuronfleet infra init fleet.yaml` prints it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from neuronfleet.infra.commands import init_text
from neuronfleet.infra.commands.init_text import DraftModel, DraftPool
from neuronfleet.infra.settings import offers, parse, truth, versions
from neuronfleet.infra.settings.model import Owner
from neuronfleet.infra.settings.rules.blocks import PLACEHOLDER_ID
from neuronfleet.infra.settings.rules.zones import LEAST_ZONES, NO_CONTROL_PLANE
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.api.variant import CapacityType, Reservation

_ENDS = {
    CapacityType.ON_DEMAND: "",
    CapacityType.SPOT: "-spot",
    CapacityType.CAPACITY_BLOCK: "-block",
    CapacityType.RESERVED: "-odcr",
}
_MOST_ZONES = 3
_INTO = (CapacityType.CAPACITY_BLOCK, CapacityType.RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVariant:
    """A chosen way to serve the fleet's model, as the planner says it."""

    name: str
    """The variant's name in the fleet."""
    instance_type: str
    capacity: CapacityType
    replicas: int
    """At the peak."""
    replicas_per_node: int = 1
    sdk: str | None = None
    """Neuron SDK that the variant pins; None: the newest known to work on the chip."""
    ami: str | None = None
    """EKS AMI release that the variant pins; None: the newest known to work with the SDK."""
    generation: int | None = None
    """Backend generation; decides which SDK is known to work."""
    bytes_per_device: int | None = None
    """Weights and KV cache at the declared ceiling, on one device; None: unknown."""
    tensor_parallel_degree: int = 1
    logical_core_size: int | None = None
    """None: the type's default."""
    usd_per_hour: float | None = None
    """Price of a node; None: unknown."""
    price_region: str | None = None
    """Where that is its price; None: in the region that is chosen."""
    zones: tuple[str, ...] = ()
    """Zone IDs that the variant is bound to; empty: any."""
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFleet:
    """One fleet and what the plan chose for it."""

    name: str
    namespace: str
    """Where the ServingFleet lives; `default` where its file names none."""
    model: str
    variants: tuple[PlannedVariant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InfraPlan:
    """What the command line hands over of a fleet file and its plan."""

    name: str
    """Of the deployment: prefix of its stacks."""
    fleets: tuple[PlannedFleet, ...]
    dated: datetime
    """When it is planned, with zone: reservations that are over by then are refused."""
    regions: tuple[str, ...] = ()
    """Where the fleet may be served, in order of preference; empty: any recorded region."""
    source: str = "fleet.yaml"
    """What the fleet file is called in comments."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What two variants share when their replicas may share a pool."""

    instance_type: str
    capacity: CapacityType
    sdk: str
    ami: str | None
    logical_core_size: int | None
    reservation: Reservation | None
    zones: tuple[str, ...]


def init(plan: InfraPlan) -> str:
    """The text of the settings file; what only a person can say stands there to be filled in.

    Raises:
        SpecError: the plan cannot be deployed; names where each type is, or what is wrong.
    """
    region = choose_region(plan)
    pools = _pools(plan, region)
    text = init_text.render(
        name=plan.name,
        region=region,
        zones=_zones(region, pools),
        pools=pools,
        images=_images(plan),
        namespaces=tuple(dict.fromkeys(fleet.namespace for fleet in plan.fleets)),
        source=plan.source,
        dated=plan.dated.date().isoformat(),
    )
    problems = truth.check(parse.parse(text, plan.source), plan.dated)
    wrong = [problem for problem in problems if not _left_to_person(problem)]
    if wrong:
        raise SpecError.of(f"the infrastructure of {plan.source}", wrong)
    return text


def choose_region(plan: InfraPlan) -> str:
    """The first preferred region that offers every type.

    Without preference: where most prices are known, then where the scarcest type has most zones.

    Raises:
        SpecError: none offers them all; names the regions of each.
    """
    types = list(dict.fromkeys(one.instance_type for _, one in _variants(plan)))
    if not types:
        raise SpecError(f"{plan.source}: no variant on Neuron was planned, must hold one that fits")
    where = {name: _regions_of(name, plan.source) for name in types}
    candidates = plan.regions or tuple(offers.regions())
    fitting = [one for one in candidates if all(one in regions for regions in where.values())]
    if not fitting:
        each = "; ".join(f"{name}: {', '.join(regions)}" for name, regions in where.items())
        within = f" of {', '.join(plan.regions)}" if plan.regions else ""
        raise SpecError(f"{plan.source}: no region{within} offers all of its types; {each}")
    if plan.regions:
        return fitting[0]
    priced = [one.price_region for _, one in _variants(plan)]
    return min(
        fitting,
        key=lambda one: (-priced.count(one), -min(len(where[t][one]) for t in types), one),
    )


def _regions_of(name: str, source: str) -> dict[str, tuple[str, ...]]:
    offer = offers.find(name)
    if offer is None or not offer.is_neuron:
        known = ", ".join(offers.neuron_types())
        raise SpecError(f"{source}: instanceType = {name}, must be one of {known}")
    return dict(offer.zones)


def _variants(plan: InfraPlan) -> list[tuple[PlannedFleet, PlannedVariant]]:
    return [(fleet, variant) for fleet in plan.fleets for variant in fleet.variants]


def _pools(plan: InfraPlan, region: str) -> tuple[DraftPool, ...]:
    """One pool for each type and way to buy it, and further ones where versions differ."""
    near = _near(region, [one.instance_type for _, one in _variants(plan)])
    groups: dict[_Key, list[tuple[PlannedFleet, PlannedVariant]]] = {}
    for fleet, variant in _variants(plan):
        groups.setdefault(_key(variant), []).append((fleet, variant))
    names: list[str] = []
    pools = []
    for key, members in groups.items():
        name = _name(key, names)
        names.append(name)
        pools.append(_pool(name, key, members, region, near))
    return tuple(pools)


def _key(variant: PlannedVariant) -> _Key:
    sdk = variant.sdk or versions.newest_sdk(variant.instance_type, variant.generation)
    if sdk is None:
        known = ", ".join(versions.known_amis())
        raise SpecError(
            f"variant {variant.name}: pins.sdk = nothing, must be given: of {known} none is known "
            f"to run generation {variant.generation} on {variant.instance_type}"
        )
    return _Key(
        variant.instance_type,
        variant.capacity,
        sdk,
        variant.ami,
        variant.logical_core_size,
        variant.reservation,
        variant.zones,
    )


def _name(key: _Key, taken: Sequence[str]) -> str:
    """trn2.48xlarge bought as a block is trn2-48xlarge-block, a second one ...-block-2."""
    name = key.instance_type.replace(".", "-") + _ENDS[key.capacity]
    count = sum(one == name or (one.startswith(f"{name}-") and one[-1].isdigit()) for one in taken)
    return name if not count else f"{name}-{count + 1}"


def _pool(
    name: str,
    key: _Key,
    members: Sequence[tuple[PlannedFleet, PlannedVariant]],
    region: str,
    near: Sequence[str],
) -> DraftPool:
    owner = Owner.NODE_GROUP if key.capacity in _INTO else Owner.KARPENTER
    amis = versions.amis_of(key.sdk)
    ami = key.ami or (amis[1] if amis else None)
    if ami is None:
        known = ", ".join(versions.known_amis())
        raise SpecError(
            f"variant {members[0][1].name}: pins.ami = nothing, must be given: no AMI is known to "
            f"run SDK {key.sdk} (known: {known})"
        )
    zones = _pool_zones(key, members[0][1].name, region)
    if not key.zones:
        zones = tuple(zone for zone in zones if zone in near) or zones[:1]
    nodes = sum(math.ceil(one.replicas / one.replicas_per_node) for _, one in members)
    prices = {one.usd_per_hour for _, one in members if one.usd_per_hour is not None}
    return DraftPool(
        name=name,
        owner=owner,
        instance_type=key.instance_type,
        capacity=key.capacity,
        zones=zones[:1] if owner is Owner.NODE_GROUP else zones,
        most=max(1, nodes),
        sdk=key.sdk,
        ami=ami,
        ami_known=versions.ami_known(key.instance_type, key.sdk, ami),
        logical_core_size=key.logical_core_size if key.instance_type.startswith("trn2") else None,
        usd_per_hour=max(prices, default=None),
        price_region=members[0][1].price_region or region,
        reservation=key.reservation,
        models=_models(members),
    )


def _pool_zones(key: _Key, variant: str, region: str) -> tuple[str, ...]:
    offer = offers.find(key.instance_type)
    offered = offer.zones[region] if offer else ()
    usable = [zone for zone in offered if zone not in NO_CONTROL_PLANE]
    wanted = [zone for zone in usable if not key.zones or zone in key.zones]
    if not wanted:
        raise SpecError(
            f"variant {variant}: zones = {', '.join(key.zones)}, must be zone IDs of {region} that "
            f"offer {key.instance_type}: {', '.join(usable)}"
        )
    return tuple(wanted)


def _near(region: str, types: Sequence[str]) -> tuple[str, ...]:
    """The few zones that offer most of the types: each zone costs its own endpoints."""
    offered = [offer.zones[region] for offer in map(offers.find, types) if offer is not None]
    usable = [zone for zone in offers.regions()[region] if zone not in NO_CONTROL_PLANE]
    usable.sort(key=lambda zone: -sum(zone in zones for zones in offered))
    return tuple(usable[:_MOST_ZONES])


def _images(plan: InfraPlan) -> tuple[str, ...]:
    """What the fleets run on: the project's own, and the server of each generation."""
    generations = {one.generation for _, one in _variants(plan)}
    if None in generations:
        generations = {1, 2}
    servers = [f"vllm-neuron-gen{one}" for one in (1, 2) if one in generations]
    return ("controller", "gateway", *servers)


def _models(members: Sequence[tuple[PlannedFleet, PlannedVariant]]) -> tuple[DraftModel, ...]:
    """A model for each variant; named after the variant too where a fleet has several here."""
    fleets = [f"{fleet.namespace}/{fleet.name}" for fleet, _ in members]
    found = []
    for reference, (fleet, one) in zip(fleets, members, strict=True):
        several = fleets.count(reference) > 1
        found.append(
            DraftModel(
                name=f"{fleet.model}/{one.name}" if several else fleet.model,
                fleet=reference,
                bytes_per_device=one.bytes_per_device,
                tensor_parallel_degree=one.tensor_parallel_degree,
                logical_core_size=one.logical_core_size,
            )
        )
    return tuple(found)


def _zones(region: str, pools: Sequence[DraftPool]) -> tuple[str, ...]:
    """Those of the pools, and more until a control plane has enough."""
    used = {zone for pool in pools for zone in pool.zones}
    for zone in offers.regions()[region]:
        if len(used) >= LEAST_ZONES:
            break
        if zone not in NO_CONTROL_PLANE:
            used.add(zone)
    return tuple(sorted(used))


def _left_to_person(problem: Problem) -> bool:
    """What only a person can say: the file is written, and refused until it is said.

    Who administers, why an AMI of which nothing is known is used, and what was reserved.
    """
    if ".block." in problem.path:
        return problem.value in ("nothing", PLACEHOLDER_ID)
    return problem.path.startswith("cluster.admins") or problem.path.endswith(".amiRelease")
