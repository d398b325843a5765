"""Everything that one reconcile of a fleet sees, gathered before anything is decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from neuronfleet.serving.api.fleet import Mode, ServingFleet
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller.records import (
    DeploymentRecord,
    FleetRecord,
    NodeRecord,
    PodRecord,
)
from neuronfleet.serving.planner.boots import BootTimes
from neuronfleet.serving.planner.decide import StaffingSpec
from neuronfleet.serving.planner.observation import Sample


class MetricsState(StrEnum):
    """Whether a fleet's load is known; the words are the condition's reasons."""

    FOUND = "Found"
    MISSING = "Missing"
    """The source answers and knows nothing of this fleet."""
    STALE = "Stale"
    SOURCE_ERROR = "SourceError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long things may take before they count as failed, in seconds."""

    capacity_wait_s: float = 300.0
    """A pod that no node fits for this long: there is no capacity."""
    capacity_retry_s: float = 600.0
    """After this a variant without capacity is tried again."""
    unready_s: float = 60.0
    """A replica that served and fails its canary for this long is replaced; so is one whose node is
    not heard for this long."""
    restarts: int = 3
    """Restarts of a replica that has never served after which it has failed."""
    slow_boots: float = 2.0
    """P99 boot times after which a new revision has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One fleet and what is around it."""

    record: FleetRecord
    fleet: ServingFleet
    status: FleetStatus
    """As stored: what an earlier reconcile left."""
    staffing: StaffingSpec
    revisions: Mapping[str, str]
    """The revision that each variant of the spec should run."""
    pods: tuple[PodRecord, ...]
    deployments: tuple[DeploymentRecord, ...]
    nodes: Mapping[str, NodeRecord]
    samples: tuple[Sample, ...]
    metrics: MetricsState
    metrics_detail: str
    watched_since_s: float
    boots: Mapping[str, BootTimes]
    patience: Patience
    unready_since: Mapping[str, float] = field(default_factory=dict)
    """Pods past their startup that are not ready, by uid, and since when they were seen so."""
    idle_since: Mapping[str, float] = field(default_factory=dict)
    """Pods that hold no stream, by name, and since when every sample has said so."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Variants of which no pod may be made, and why: a wall, or pins that clash."""
    without_capacity: Mapping[str, float] = field(default_factory=dict)
    """Variants that found no capacity, and until when they are left alone (Unix seconds)."""
    refused: str | None = None
    """What the API server said of a write that it refused for good."""

    @property
    def acts(self) -> bool:
        """Whether counts are carried out.

        An Advisory fleet's are somebody else's; a fixed count is the user's, or is set over `scale`
        by whoever follows the published decision.
        """
        return self.fleet.mode is Mode.ACTIVE or self.fleet.replicas is not None

    @property
    def in_flight(self) -> Mapping[str, float]:
        """Sequences at each replica by the latest sample; unknown ones are missing."""
        return self.samples[-1].in_flight if self.samples else {}
