"""Where the agent's knowledge comes from: the cluster, or a test."""

import asyncio
from typing import Protocol

from neuronfleet.serving.controller.gateway.facts import ClusterFacts


class ClusterFeed(Protocol):
    """Facts that change by themselves."""

    changed: asyncio.Event
    """Set at each change; who waits clears it."""

    @property
    def synced(self) -> bool:
        """Whether everything was read once."""
        ...

    def facts(self) -> ClusterFacts:
        """All that is known now."""
        ...


class Leadership(Protocol):
    """This pod's part in the Lease."""

    @property
    def held(self) -> bool:
        """Whether this pod holds it, and nobody else can yet."""
        ...

    @property
    def reachable(self) -> bool:
        """Whether the API server was there at the last try."""
        ...

    @property
    def transitions(self) -> int:
        """How often this pod began or ceased to hold it."""
        ...

    async def release(self) -> None:
        """Stop trying, and let the next one take it."""
        ...
