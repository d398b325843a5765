"""What a local fleet needs of whoever sends it requests; the load client itself lives in bench."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.local.scenario import Load, LocalRun


class Outcome(Protocol):
    """One request as its client saw it, in fleet time."""

    @property
    def ended_s(self) -> float:
        """When its last byte came, seconds since the client began."""

    @property
    def ttft_s(self) -> float | None:
        """From due to first token; None without a token."""

    @property
    def tpot_s(self) -> float | None:
        """Per output token after the first chunk; None where undefined."""

    @property
    def tokens(self) -> int:
        """Output tokens by the server's count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a client measured over its whole run. None is unknown, or beyond every answer."""

    offered: int
    completed: int
    refused: int
    failed: int
    unfinished: int
    attainment: float | None
    ttft_ms: dict[str, float | None]
    """p50, p90 and p99."""
    tpot_ms: dict[str, float | None]
    output_tokens: int
    void: tuple[str, ...]
    """Why its figures do not count; empty if they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Traffic that one client is to send."""

    endpoint: str
    """Ends in /v1."""
    key: str
    """API key that the endpoint knows this client by."""
    fleet: ServingFleet
    load: Load
    run: LocalRun
    until_s: float | None
    """Fleet seconds that it has; None until it is stopped."""


class Client(Protocol):
    """A load client at work."""

    async def run(self) -> None:
        """Send until the arrivals end or `stop` is called."""

    async def stop(self) -> None:
        """Abort what runs."""

    def now_s(self) -> float:
        """Fleet seconds since it began."""

    def outcomes(self) -> Sequence[Outcome]:
        """Every request that ended, in the order of ending."""

    def attained(self, outcomes: Sequence[Outcome]) -> float | None:
        """Share of these that met the objective; refused and broken ones miss it."""

    def report(self) -> Report:
        """What was measured so far."""


ClientFactory = Callable[[Assignment], Client]
