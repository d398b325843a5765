"""What the gateway should be: fleets, their models and their replicas; a pure function of facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuronfleet.serving.controller.gateway.facts import ClusterFacts, FleetFact, ReplicaFact
from neuronfleet.serving.gateway.claims import ReplicaWanted
from neuronfleet.serving.gateway.settings import MODEL, MODEL_ALLOWED, NAME, NAME_ALLOWED

_QUEUE_S = (0.001, 86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWanted:
    """One fleet."""

    key: str
    model: str
    queue_s: float
    boot_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """All fleets, and what cannot be served."""

    fleets: Mapping[str, FleetWanted]
    replicas: Mapping[str, Mapping[str, ReplicaWanted]] = field(default_factory=dict)
    """By fleet key and pod name; also those that outlive their fleet for a while."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why a fleet is not served, by its key."""


def wanted(facts: ClusterFacts, most_fleets: int) -> Wanted:
    """Fleets by key. Of two that claim a model the older keeps it; names break a tie."""
    owners: dict[str, str] = {}
    refused: dict[str, str] = {}
    fleets: dict[str, FleetWanted] = {}
    for fact in sorted(facts.fleets, key=lambda fleet: (fleet.created, fleet.key)):
        why = _wrong(fact, owners)
        if why is None and len(fleets) >= most_fleets:
            why = f"the gateway serves mostFleets = {most_fleets} fleets already"
        if why is not None:
            refused[fact.key] = why
            continue
        owners[fact.model] = fact.key
        fleets[fact.key] = FleetWanted(
            key=fact.key, model=fact.model, queue_s=fact.queue_s, boot_s=fact.boot_s
        )
    return Wanted(fleets=fleets, replicas=_by_fleet(facts.replicas), refused=refused)


def _by_fleet(replicas: tuple[ReplicaFact, ...]) -> dict[str, dict[str, ReplicaWanted]]:
    found: dict[str, dict[str, ReplicaWanted]] = {}
    for replica in replicas:
        found.setdefault(replica.fleet, {})[replica.pod] = _replica(replica)
    return found


def _wrong(fact: FleetFact, owners: Mapping[str, str]) -> str | None:
    if not NAME.fullmatch(fact.key):
        return f"<namespace>.<name> = {fact.key}, {NAME_ALLOWED}"
    if not MODEL.fullmatch(fact.model):
        return f"spec.model.name = {fact.model}, {MODEL_ALLOWED}"
    if fact.model in owners:
        return f"model {fact.model} belongs to the older fleet {owners[fact.model]}"
    low, high = _QUEUE_S
    if not low <= fact.queue_s <= high:
        return f"spec.queue.timeout = {fact.queue_s}, must be in [{low}, {high}] seconds"
    return None


def _replica(fact: ReplicaFact) -> ReplicaWanted:
    return ReplicaWanted(
        host=fact.host,
        port=fact.port,
        ceiling=fact.ceiling,
        serve=fact.ready and not fact.terminating,
    )
