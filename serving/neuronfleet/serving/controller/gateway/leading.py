"""The Lease as the agent's leadership: held or not is all that the loop asks."""

import asyncio

from neuronfleet.serving.controller.gateway.feed import ClusterFeed
from neuronfleet.serving.controller.lease import Lease


class Leading:
    """Tries for the Lease once the cluster was read, and until it is released."""

    def __init__(self, lease: Lease, feed: ClusterFeed) -> None:
        self._lease, self._feed = lease, feed
        self.task = asyncio.create_task(self._run())
        """Ends by `release`, or by a fault."""

    @property
    def held(self) -> bool:
        """Whether this pod holds it, and nobody else can yet."""
        return self._lease.held

    @property
    def reachable(self) -> bool:
        """Whether the API server was there at the last try."""
        return self._lease.reachable

    @property
    def transitions(self) -> int:
        """How often this pod began or ceased to hold it."""
        return self._lease.transitions

    async def release(self) -> None:
        """Stop trying, and let the next one take it."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self._lease.release()

    async def _run(self) -> None:
        # Who does not know the fleets yet would hold the Lease and serve nobody.
        while not self._feed.synced:  # noqa: ASYNC110 - its event is the loop's to clear
            await asyncio.sleep(0.05)
        await self._lease.run(self._lead)

    async def _lead(self) -> None:
        self._feed.changed.set()
        await asyncio.Event().wait()
