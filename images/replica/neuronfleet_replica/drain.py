"""Wait until the replica's streams have ended: preStop."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from neuronfleet_replica.server import Look, Unreachable, look

_LOOK_S = 5.0
_EVERY_S = 0.5
_FAILED_LOOKS = 3
"""Looks in a row without an answer after which the server counts as dead: its streams are, too."""


@dataclass(slots=True, kw_only=True)
class Wait:
    """The looks so far; times are seconds since the start."""

    settle_s: float
    """The gateway needs a moment to see that the endpoint goes, and may send until then."""
    empty: int = 0
    failed: int = 0

    def saw(self, seen: Look, at_s: float) -> str | None:
        """Take a look into account; the reason to end the wait, or None."""
        self.failed = 0
        self.empty = self.empty + 1 if seen.held == 0 and at_s >= self.settle_s else 0
        return "no sequence is left" if self.empty >= 2 else None

    def missed(self, error: Unreachable) -> str | None:
        """Take a look that failed into account; see `saw`."""
        self.failed += 1
        self.empty = 0
        if error.refused or self.failed >= _FAILED_LOOKS:
            return f"the server is gone: {error}"
        return None


def drain(
    port: int,
    timeout_s: float,
    settle_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait for two looks in a row at an empty server; says why the wait ended."""
    started = monotonic()
    wait = Wait(settle_s=settle_s)
    while (at_s := monotonic() - started) < timeout_s:
        try:
            ended = wait.saw(look(port, min(_LOOK_S, timeout_s - at_s)), at_s)
        except Unreachable as error:
            ended = wait.missed(error)
        if ended is not None:
            return ended
        sleep(_EVERY_S)
    return f"sequences are left after {timeout_s:g} s"
