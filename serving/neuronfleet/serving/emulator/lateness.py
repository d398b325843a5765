"""How late the emulator runs against its own timing: whether its figures may be believed."""

import math
from dataclasses import dataclass

_SMALLEST_MS = 0.01
_RATIO = math.log(1.02)
_BINS = 1200  # 0.01 ms * 1.02 ** 1200 = 58 hours
MIN_SAMPLES = 100
"""Fewer pieces of work than this have no 99th percentile worth voiding a run for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether what was measured against this replica counts."""

    void: bool
    reason: str | None = None


class LatenessLog:
    """Lateness of each piece of work, in real milliseconds, as a histogram of 2 % bins."""

    def __init__(self) -> None:
        self._bins = [0] * _BINS
        self.samples = 0
        self.max_ms = 0.0

    def record(self, late_ms: float) -> None:
        """Count one piece of work that started `late_ms` after its due time."""
        self.samples += 1
        if late_ms > self.max_ms:
            self.max_ms = late_ms
        if late_ms <= _SMALLEST_MS:
            self._bins[0] += 1
        else:
            self._bins[min(_BINS - 1, 1 + int(math.log(late_ms / _SMALLEST_MS) / _RATIO))] += 1

    def quantile(self, share: float) -> float | None:
        """Upper edge of the bin that holds the quantile; None of nothing."""
        if not self.samples:
            return None
        rank, seen = share * self.samples, 0
        for index, count in enumerate(self._bins):
            seen += count
            if seen >= rank:
                return min(self.max_ms, _SMALLEST_MS * math.exp(_RATIO * index))
        return self.max_ms

    def judge(self, scale: float, limit_ms: float) -> Verdict:
        """Void once the 99th percentile, in emulated time, exceeds `limit_ms`."""
        p99 = self.quantile(0.99)
        if p99 is None or self.samples < MIN_SAMPLES or p99 * scale <= limit_ms:
            return Verdict(void=False)
        return Verdict(
            void=True,
            reason=f"work started {p99 * scale:.1f} emulated ms late at p99 ({p99:.1f} ms real), "
            f"must be in [0, {limit_ms:g}]",
        )
