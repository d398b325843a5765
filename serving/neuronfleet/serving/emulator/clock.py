"""The fleet's own time: real time, run `scale` times as fast."""

import time
from collections.abc import Callable


class ScaledClock:
    """Emulated milliseconds since a start, by absolute times so that nothing drifts."""

    def __init__(self, scale: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.scale = scale
        self._monotonic = monotonic
        self._epoch = monotonic()
        self._paused: float | None = None

    def now_ms(self) -> float:
        """Emulated milliseconds since the start; stands still while paused."""
        now = self._monotonic() if self._paused is None else self._paused
        return (now - self._epoch) * 1000.0 * self.scale

    def delay(self, at_ms: float) -> float:
        """Real seconds until the emulated time `at_ms`; negative where it is past."""
        return (at_ms - self.now_ms()) / 1000.0 / self.scale

    def real_seconds(self, emulated: float) -> float:
        """Real seconds that an emulated duration takes."""
        return emulated / self.scale

    def pause(self) -> None:
        """Stop: a hung engine's time does not pass, so its work is not late afterwards."""
        if self._paused is None:
            self._paused = self._monotonic()

    def resume(self) -> None:
        """Go on from where it stopped."""
        if self._paused is not None:
            self._epoch += self._monotonic() - self._paused
            self._paused = None
