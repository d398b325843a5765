"""Learned boot times of a variant, as a distribution."""

from neuronfleet.serving.replica.replay import quantile

_KEPT = 50


class BootTimes:
    """Boot durations in fleet seconds: an expectation until some were seen, then those."""

    def __init__(self, expected_s: float) -> None:
        self._expected = expected_s
        self._seen: list[float] = []

    def add(self, seconds: float) -> None:
        """Learn from a boot that ended well."""
        self._seen = [*self._seen[1 - _KEPT :], seconds]

    @property
    def p90_s(self) -> float:
        """P90; the expectation stands beside what was seen until there is enough of it."""
        known = self._seen if len(self._seen) >= 10 else [self._expected, *self._seen]
        return quantile(known, 0.9) or self._expected
