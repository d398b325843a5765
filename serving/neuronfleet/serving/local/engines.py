"""What runs as a replica on this machine, behind one protocol: emulated, or real vLLM on CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A request whose right answer is known: what makes a replica ready, and keeps it so."""

    path: str
    """Under /v1, as `completions`."""
    body: Mapping[str, Any]
    expected: str
    """Text that a working engine answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start one replica."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    state_port: int | None
    """Where an emulated replica tells its boot phase; None for a real engine."""


class Engine(Protocol):
    """A way to run replicas."""

    @property
    def name(self) -> str:
        """`emulated` or `vllm`, as records and pages say."""

    async def prepare(self) -> None:
        """Make what all replicas need, once a run."""

    def boot_s(self, variant: Variant) -> float:
        """Expected boot, fleet seconds."""

    def runs(self, fleet: ServingFleet, variant: Variant) -> bool:
        """Whether replicas of this variant can run here; others are left out of the fleet."""

    def ceiling(self, fleet: ServingFleet, variant: Variant) -> int:
        """Slots of one replica."""

    def launch(self, fleet: ServingFleet, variant: Variant, name: str, directory: Path) -> Launch:
        """The command that starts one replica, its files written to `directory`."""

    def probe(self, fleet: ServingFleet, number: int) -> Probe:
        """The `number`-th canary request of a fleet."""
