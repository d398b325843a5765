"""A settings file in words: what `infra init` found, with a comment wherever a person decides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neuronfleet.infra.settings import offers, quotas
from neuronfleet.infra.settings.model import Owner, SystemNodes
from neuronfleet.infra.settings.parse import API_VERSION, KIND, efa_default
from neuronfleet.infra.settings.rules.access import PLACEHOLDER
from neuronfleet.infra.settings.rules.blocks import PLACEHOLDER_ID
from neuronfleet.serving.api.variant import CapacityType, Reservation

HOURS_A_MONTH = 730
"""8,760 hours of a year over 12."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """A model as it is written under its pool."""

    name: str
    fleet: str
    bytes_per_device: int | None
    """None: unknown, so that its memory is not checked at synthesis."""
    tensor_parallel_degree: int
    logical_core_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPool:
    """A pool as it is written."""

    name: str
    owner: Owner
    instance_type: str
    capacity: CapacityType
    zones: tuple[str, ...]
    most: int
    sdk: str
    ami: str
    ami_known: bool
    """Whether a release note says that the AMI runs the SDK."""
    logical_core_size: int | None
    usd_per_hour: float | None
    """Of a node; None: unknown."""
    price_region: str
    """Where that is its price."""
    reservation: Reservation | None
    models: tuple[DraftModel, ...]


def render(
    *,
    name: str,
    region: str,
    zones: Sequence[str],
    pools: Sequence[DraftPool],
    images: Sequence[str],
    namespaces: Sequence[str],
    source: str,
    dated: str,
) -> str:
    """The whole file."""
    lines = [
        f"# Infrastructure of {source}, as planned on {dated}.",
        f"# {_price(pools)}",
        "# `neuronfleet infra cost` adds control plane, NAT and endpoints.",
        "#",
        "#   neuronfleet infra preflight settings.yaml --write",
        "#   npx cdk deploy --all -c settings=settings.yaml",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        f"name: {name}",
        f"region: {region}",
        f"zones: [{', '.join(zones)}]",
        "",
        "cluster:",
        "  # No publicCidrs: the endpoint is private, and docs/infra.md says the way in.",
        "  admins:",
        f"    - {PLACEHOLDER} # TO DO: the IAM role or user that administers the cluster",
        "",
        "pools:",
    ]
    for pool in pools:
        lines += _pool(pool)
    lines += ["", "images:", *(f"  - name: {image}" for image in images)]
    lines += ["", "serving:", f"  fleetNamespaces: [{', '.join(namespaces)}]", ""]
    lines += _quotas(pools)
    return "\n".join([*lines, ""])


def _pool(pool: DraftPool) -> Iterator[str]:
    price = "price unknown"
    if pool.usd_per_hour is not None:
        price = f"${pool.usd_per_hour:g} an hour in {pool.price_region}"
    yield f"  - name: {pool.name}"
    yield f"    owner: {pool.owner}"
    yield f"    instanceType: {pool.instance_type} # {price}"
    yield f"    capacity: {pool.capacity}"
    yield f"    zones: [{', '.join(pool.zones)}]"
    yield f"    most: {pool.most} # the plan's peak"
    yield f'    sdk: "{pool.sdk}"'
    yield f"    amiRelease: {pool.ami}"
    if efa_default(pool.owner, pool.instance_type):
        yield "    efa: true"
    if not pool.ami_known:
        yield f"    # TO DO: no release note says that it runs SDK {pool.sdk}; say why you use it:"
        yield "    # amiReason:"
    if pool.logical_core_size is not None:
        yield f"    logicalCoreSize: {pool.logical_core_size}"
    if pool.capacity is CapacityType.CAPACITY_BLOCK and pool.usd_per_hour is not None:
        yield f"    usdPerHour: {pool.usd_per_hour:g} # as planned: TO DO: of the block's offer"
    if pool.owner is Owner.NODE_GROUP:
        yield from _block(pool)
    yield from _models(pool.models)


def _block(pool: DraftPool) -> Iterator[str]:
    """Of a reservation the plan knows the ID and the end at most; the rest is in the account."""
    known = pool.reservation
    note = " # TO DO: the reservation's ID" if known is None else ""
    yield "    block:"
    yield f"      id: {known.id if known else PLACEHOLDER_ID}{note}"
    yield f"      instanceType: {pool.instance_type}"
    yield f"      zone: {pool.zones[0]} # TO DO: the reservation's; the pool's must be the same"
    yield f"      count: {pool.most} # TO DO: the reservation's"
    if pool.capacity is CapacityType.CAPACITY_BLOCK:
        yield "      # TO DO: the block's start, as 2027-03-01T11:30:00Z:"
        yield "      # startsAt:"
    if known and known.ends_at is not None:
        yield f"      endsAt: {known.ends_at.isoformat().replace('+00:00', 'Z')}"
    elif pool.capacity is CapacityType.CAPACITY_BLOCK:
        yield "      # TO DO: and its end:"
        yield "      # endsAt:"


def _models(models: Sequence[DraftModel]) -> Iterator[str]:
    known = [model for model in models if model.bytes_per_device is not None]
    for model in models:
        if model.bytes_per_device is None:
            yield f"    # {model.name} of {model.fleet}: memory unknown, so it is not checked."
    if known:
        yield "    models:"
    for model in known:
        gib = (model.bytes_per_device or 0) / 2**30
        yield f"      - name: {model.name}"
        yield f"        fleet: {model.fleet}"
        yield f"        bytesPerDevice: {model.bytes_per_device} # {gib:.1f} GiB"
        yield f"        tensorParallelDegree: {model.tensor_parallel_degree}"
        if model.logical_core_size is not None:
            yield f"        logicalCoreSize: {model.logical_core_size}"


def _price(pools: Sequence[DraftPool]) -> str:
    """What Neuron nodes cost a month where all run; one unknown price makes it a lower bound."""
    known = [pool for pool in pools if pool.usd_per_hour is not None]
    month = sum(pool.most * (pool.usd_per_hour or 0) * HOURS_A_MONTH for pool in known)
    if not known:
        return "The price of its Neuron nodes is unknown."
    unknown = [pool.name for pool in pools if pool.usd_per_hour is None]
    less = f", without {', '.join(unknown)} (price unknown)" if unknown else ""
    return f"Neuron nodes: ${month:,.0f} a month with all of them running{less}."


def _quotas(pools: Sequence[DraftPool]) -> Iterator[str]:
    """The quotas that the file needs, to be requested; preflight writes what the account has."""
    system = SystemNodes()
    groups = [(pool.instance_type, pool.capacity, pool.most) for pool in pools]
    groups.append((system.instance_type, CapacityType.ON_DEMAND, system.most))
    needed: dict[str, int] = {}
    for instance_type, capacity, most in groups:
        quota, offer = quotas.quota_of(instance_type, capacity), offers.find(instance_type)
        if quota is not None and offer is not None:
            needed[quota.code] = needed.get(quota.code, 0) + most * offer.vcpus
    yield "# `neuronfleet infra preflight --write` writes the account's quotas here. Needed, vCPUs:"
    yield "# quotas:"
    for code, vcpus in needed.items():
        yield f"#   {code}: {vcpus} # {quotas.ALL[code].name}"
