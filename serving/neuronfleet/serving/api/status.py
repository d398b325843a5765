"""The status of a fleet: what the controller found and decided, and whether it holds.

A field that is unknown is absent, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from neuronfleet.serving.api.stored import Stored

MOST_DECISIONS = 10
"""Decisions that a status keeps."""
MOST_BOOTS = 20
"""Boots that a status keeps of a variant: its P90 is learned from them after a restart."""


class ConditionType(StrEnum):
    """What a condition of a fleet is about."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    METRICS_AVAILABLE = "MetricsAvailable"
    SCALING_LIMITED = "ScalingLimited"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    GRAPH_CACHE_READY = "GraphCacheReady"
    DEGRADED = "Degraded"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCondition(Stored):
    """One thing that holds of the fleet, does not, or is not known to."""

    type: str = field(metadata={"enum": [str(one) for one in ConditionType]})
    """What it is about."""
    status: str = field(metadata={"enum": ["True", "False", "Unknown"]})
    """Whether it holds."""
    reason: str | None = None
    """Why, in one word for machines."""
    message: str | None = None
    """Why, in a sentence with figures."""
    last_transition_time: datetime | None = None
    """When `status` last changed."""
    observed_generation: int | None = None
    """Generation of the spec that it was found for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs(Stored):
    """The figures that a decision rests on."""

    load: float | None = None
    """Peak sequences in flight, queued and refused that were staffed for."""
    slots_needed: float | None = None
    """Slots that the staffing law asks for that load."""
    arrivals_per_second: float | None = None
    """Requests that arrive a second."""
    rate_per_replica: float | None = None
    """Requests a second that one replica of the first variant takes at the attainment."""
    current: int | None = None
    """Replicas serving or booting before the decision."""
    sample_age_seconds: float | None = None
    """Age of the newest sample of the metrics."""
    origin: str | None = None
    """Where the sample came from."""
    window_seconds: float | None = None
    """Time over which the peak was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord(Stored):
    """One decision that changed the fleet, or would have."""

    at: datetime
    """When it was made."""
    reason: str
    """Why, in one word."""
    desired: Mapping[str, int] = field(default_factory=dict)
    """Replicas serving or booting that were decided, by variant."""
    inputs: DecisionInputs | None = None
    """The figures that it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantStatus(Stored):
    """One variant of the fleet."""

    name: str
    """Name of the variant in the spec."""
    instance_type: str | None = None
    """Instance type that its replicas ask for."""
    capacity_type: str | None = None
    """How the instance is bought."""
    revision: str | None = None
    """Revision of its pods: a digest over what they are made of."""
    desired: int | None = None
    """Replicas that were decided."""
    serving: int | None = None
    """Replicas that answer requests."""
    booting: int | None = None
    """Replicas on their way."""
    draining: int | None = None
    """Replicas that finish their streams and take no new ones."""
    ceiling: int | None = None
    """Sequences that one replica may run at once."""
    usd_per_hour: float | None = None
    """Price of its instances at the desired count; absent where a price is unknown."""
    boot_p90_seconds: float | None = None
    """Time within which nine of ten replicas boot."""
    boot_p99_seconds: float | None = None
    """Time within which 99 of 100 replicas boot."""
    boots: tuple[float, ...] = field(default=(), metadata={"maxItems": MOST_BOOTS})
    """Last boots, seconds, oldest first."""
    limited: str | None = None
    """Why it cannot grow; absent where it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStatus(Stored):
    """A change of revision under way, or the last one."""

    state: str
    """How far it is, in one word."""
    from_: str | None = None
    """Revision that served before."""
    to: str | None = None
    """Revision that is to serve."""
    reason: str | None = None
    """Why it waits, failed or was rolled back."""
    started_at: datetime | None = None
    """When it began."""
    variant: str | None = None
    """Variant whose revision changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus(Stored):
    """What the controller found and decided; written by it alone."""

    observed_generation: int | None = None
    """Generation of the spec that this status answers."""
    replicas: int | None = None
    """Replicas that exist, whatever their phase: what `scale` reads."""
    selector: str | None = None
    """Label selector of the replicas' pods: what `scale` reads."""
    desired: int | None = None
    """Replicas that were decided, of all variants."""
    serving: int | None = None
    """Replicas that answer requests."""
    booting: int | None = None
    """Replicas on their way."""
    draining: int | None = None
    """Replicas that finish their streams and take no new ones."""
    standby: int | None = None
    """Booted replicas beyond what the law asks."""
    ceiling: int | None = None
    """Sequences that all serving replicas may run at once."""
    load: float | None = None
    """Sequences in flight and queued at the gateway."""
    usd_per_hour: float | None = None
    """Price of the fleet's instances; absent where one is unknown."""
    reason: str | None = None
    """Why the fleet has the size it has, in one word."""
    conditions: tuple[StatusCondition, ...] = field(
        default=(), metadata={"key": "type", "maxItems": 16}
    )
    """What holds of the fleet."""
    last_decision: DecisionRecord | None = None
    """The newest decision."""
    decisions: tuple[DecisionRecord, ...] = field(default=(), metadata={"maxItems": MOST_DECISIONS})
    """The last decisions, oldest first."""
    variants: tuple[VariantStatus, ...] = field(
        default=(), metadata={"key": "name", "maxItems": 16}
    )
    """Each variant of the fleet."""
    rollout: RolloutStatus | None = None
    """The change of revision that is under way, or the last one."""
