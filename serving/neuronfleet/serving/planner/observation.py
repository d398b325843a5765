"""What a fleet is seen to do, as `decide` takes it. Unknown is a value, never zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """Where a replica is in its life."""

    BOOTING = "booting"
    SERVING = "serving"
    DRAINING = "draining"
    FAILED = "failed"


class Origin(StrEnum):
    """Who counted a sample."""

    METRICS = "metrics"
    """Prometheus: the samples that may justify a shrink."""
    GATEWAY = "gateway"
    """The gateway's own counters, asked directly while metrics are missing: growth only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSeen:
    """A replica that exists now."""

    name: str
    variant: str
    phase: Phase
    since_s: float
    """When it entered the phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of a fleet's load."""

    at_s: float
    origin: Origin
    in_flight: Mapping[str, float]
    """Sequences at each replica, by its name."""
    queued: float
    """Requests waiting for a slot."""
    refused_per_s: float = 0.0
    """Requests turned away: they are load that found no place."""
    arrivals_per_s: float | None = None
    prompt_tokens: float | None = None
    """Mean length of recent prompts."""
    output_tokens: float | None = None
    seconds_per_request: float | None = None
    """Mean time that a request holds its slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A fleet as seen at one moment."""

    replicas: tuple[ReplicaSeen, ...]
    samples: tuple[Sample, ...]
    """Oldest first, both origins mixed; empty while nothing was read."""
    watched_since_s: float
    """When this controller began to look: what came before is unknown to it."""
    gone: Mapping[str, float] = field(default_factory=dict)
    """Replicas that are deleted, and since when, seconds: their series may live on in the metrics
    and count for nothing from then on. What they held before was load."""

    def names(self, *phases: Phase) -> list[str]:
        """Names of the replicas in these phases."""
        return [replica.name for replica in self.replicas if replica.phase in phases]
