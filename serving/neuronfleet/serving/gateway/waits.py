"""When a slot may be expected, for Retry-After."""

from neuronfleet.serving.gateway.stats import FleetStats

LEAST_WAIT_S = 1.0
NO_SLOT_S = 30.0
"""A fleet without a slot boots or is at rest, and its boots were not seen yet."""
_KEEP = 0.8
"""Of what was known before, at each look in which requests ended."""


class HoldTime:
    """How long a request holds its slot: slot-seconds over requests that ended (Little's law)."""

    def __init__(self) -> None:
        self.mean_s: float | None = None
        self._last: tuple[float, int, int] | None = None
        self._slot_seconds = 0.0

    def see(self, stats: FleetStats, now: float) -> None:
        """Take another look; `now` in monotonic seconds."""
        waiting = stats.in_flight + stats.queued
        ended = stats.requests - stats.refused - waiting
        if self._last is not None:
            at, ended_before, flying = self._last
            self._slot_seconds += (now - at) * flying
            count = ended - ended_before
            if count > 0:
                mean = self._slot_seconds / count
                known = mean if self.mean_s is None else self.mean_s
                self.mean_s = _KEEP * known + (1 - _KEEP) * mean
                self._slot_seconds = 0.0
        self._last = (now, ended, stats.in_flight)


def wait_s(*, slots: int, queued: int, held_s: float | None, boot_s: float | None = None) -> float:
    """Seconds, whole ones. Slots free at slots / held a second; who waits is served before."""
    if slots <= 0:
        return NO_SLOT_S if boot_s is None else float(max(LEAST_WAIT_S, round(boot_s)))
    # 10 slots held for 20 s each free every 2 s; behind 4 others: 2 * 5 = 10 s.
    held = LEAST_WAIT_S if held_s is None else held_s
    return float(max(LEAST_WAIT_S, round(held * (queued + 1) / slots)))
