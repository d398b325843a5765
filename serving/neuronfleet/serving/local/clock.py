"""The fleet's own clock: this machine's, times the scale. Zero is the start of the run."""

import asyncio
import time


class FleetClock:
    """Seconds of the fleet's time since the run began."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self._start = time.monotonic()
        self._epoch = time.time()

    def now(self) -> float:
        """Fleet seconds since the start."""
        return (time.monotonic() - self._start) * self.scale

    def from_unix(self, seconds: float) -> float:
        """Fleet seconds of a wall-clock time, as Prometheus stamps its samples."""
        return (seconds - self._epoch) * self.scale

    async def sleep(self, fleet_seconds: float) -> None:
        """Wait that long on the fleet's clock."""
        await asyncio.sleep(fleet_seconds / self.scale)
