"""Learned boot times of a variant, as a distribution."""

from collections.abc import Iterable

from neuronfleet.serving.replica.replay import quantile

_KEPT = 50
_ENOUGH = 10


class BootTimes:
    """Boot durations in seconds: an expectation until some were seen, then those."""

    def __init__(self, expected_s: float, seen: Iterable[float] = ()) -> None:
        self._expected = expected_s
        self._seen = list(seen)[-_KEPT:]

    @property
    def seen(self) -> tuple[float, ...]:
        """What was learned, oldest first."""
        return tuple(self._seen)

    def add(self, seconds: float) -> None:
        """Learn from a boot that ended well."""
        self._seen = [*self._seen[1 - _KEPT :], seconds]

    @property
    def p90_s(self) -> float:
        """P90; the expectation stands beside what was seen until there is enough of it."""
        return self._quantile(0.9)

    @property
    def p99_s(self) -> float:
        """P99, likewise."""
        return self._quantile(0.99)

    def _quantile(self, share: float) -> float:
        known = self._seen if len(self._seen) >= _ENOUGH else [self._expected, *self._seen]
        return quantile(known, share) or self._expected
