"""One fleet of the run: what it is, its replicas, its books and what was decided of it."""

from collections import deque
from dataclasses import dataclass, field

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.local.ledger import Ledger
from neuronfleet.serving.local.roster import Roster
from neuronfleet.serving.local.traffic import Client
from neuronfleet.serving.planner.decide import Decision, StaffingSpec
from neuronfleet.serving.planner.observation import Phase

_EVENTS_KEPT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a fleet, in fleet seconds."""

    at_s: float
    kind: str
    """`scale`, `replica`, `fault` or `metrics`."""
    text: str
    reason: str


@dataclass(slots=True, kw_only=True, eq=False)
class RunningFleet:
    """A fleet while the run lasts."""

    spec: ServingFleet
    staffing: StaffingSpec
    roster: Roster
    ledger: Ledger
    prices: dict[str, float | None]
    client: Client | None = None
    decision: Decision | None = None
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))
    voids: dict[str, str] = field(default_factory=dict)
    """Why the run's figures do not count, by the replica that said so."""
    peak_replicas: int = 0
    peak_load: float = 0.0

    def count(self, phase: Phase) -> int:
        """Replicas in a phase now."""
        return sum(one.phase is phase for one in self.roster.replicas.values())

    @property
    def failures(self) -> int:
        """Replicas that failed since the start."""
        return self.roster.failures

    @property
    def slots(self) -> int:
        """Slots that take requests now."""
        return sum(
            one.ceiling for one in self.roster.replicas.values() if one.phase is Phase.SERVING
        )

    @property
    def expected(self) -> bool:
        """Whether a replica is on its way or about to be."""
        return self.decision is None or self.decision.total > 0

    def usd_per_hour(self) -> float | None:
        """What its replicas cost now, booting and draining ones too; None is unknown."""
        return self.ledger.rate(one.variant.name for one in self.roster.replicas.values())

    def output_tokens(self) -> int:
        """Tokens that clients received whole or in part."""
        return sum(one.tokens for one in self.client.outcomes()) if self.client else 0
