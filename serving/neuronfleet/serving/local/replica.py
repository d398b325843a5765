"""One replica of a local fleet: its process and the phase it is in."""

import asyncio
from dataclasses import dataclass, field

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.local.children import Child
from neuronfleet.serving.planner.observation import Phase, ReplicaSeen


@dataclass(slots=True, kw_only=True, eq=False)
class Replica:
    """A replica while it exists; times are fleet seconds."""

    name: str
    fleet: ServingFleet
    variant: Variant
    ceiling: int
    born_s: float
    phase: Phase = Phase.BOOTING
    since_s: float = 0.0
    detail: str = "starting"
    """Boot phase, or why it leaves."""
    port: int = 0
    state_port: int | None = None
    child: Child | None = None
    in_gateway: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever takes it down."""
    busy_canaries: int = 0
    tokens_seen: float | None = None
    """Its generated tokens at the last inconclusive canary."""

    @property
    def url(self) -> str:
        """Where it answers, without /v1."""
        return f"http://127.0.0.1:{self.port}"

    def enter(self, phase: Phase, now: float, detail: str = "") -> None:
        """Move to a phase."""
        self.phase, self.since_s, self.detail = phase, now, detail

    def seen(self) -> ReplicaSeen:
        """As `decide` takes it."""
        return ReplicaSeen(
            name=self.name,
            variant=self.variant.name,
            phase=self.phase,
            since_s=self.since_s,
        )
