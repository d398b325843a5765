"""What the run costs and yields: dollars of replicas that exist, tokens that were delivered."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_WINDOW_S = 600.0
"""Fleet seconds that the live dollars a million tokens look over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Running totals at one moment."""

    at_s: float
    dollars: float
    tokens: float
    load_seconds: float


class Ledger:
    """Integrals over the run of one fleet. A replica costs from its boot until it has left."""

    def __init__(self, usd_per_replica_hour: Mapping[str, float | None]) -> None:
        self._prices = usd_per_replica_hour
        self._marks: deque[Mark] = deque([Mark(at_s=0, dollars=0, tokens=0, load_seconds=0)])
        self._first = self._marks[0]

    def rate(self, variants: Iterable[str]) -> float | None:
        """Dollars an hour of these replicas; None where a price is unknown."""
        prices = [self._prices.get(variant) for variant in variants]
        if any(price is None for price in prices):
            return None
        return sum(price for price in prices if price is not None)

    def advance(self, now: float, *, usd_per_hour: float | None, tokens: int, load: float) -> None:
        """Account for the time since the last call, at what ran then."""
        last = self._marks[-1]
        span = max(0.0, now - last.at_s)
        mark = Mark(
            at_s=now,
            dollars=last.dollars + (usd_per_hour or 0.0) * span / 3600,
            tokens=float(tokens),
            load_seconds=last.load_seconds + load * span,
        )
        self._marks.append(mark)
        while len(self._marks) > 2 and self._marks[1].at_s < now - _WINDOW_S:
            self._marks.popleft()

    @property
    def priced(self) -> bool:
        """Whether every variant's price is known: an unknown one makes every sum unknown."""
        return all(price is not None for price in self._prices.values())

    def dollars(self) -> float | None:
        """Dollars since the start."""
        return self._marks[-1].dollars if self.priced else None

    def per_million(self, *, whole_run: bool = False) -> float | None:
        """Dollars a million output tokens, over the window or the whole run."""
        first, last = self._first if whole_run else self._marks[0], self._marks[-1]
        tokens = last.tokens - first.tokens
        if tokens <= 0 or not self.priced:
            return None
        return (last.dollars - first.dollars) / tokens * 1e6

    def mean_load(self) -> float | None:
        """Mean sequences in flight and queued over the run: what $/1M was measured at."""
        last = self._marks[-1]
        return last.load_seconds / last.at_s if last.at_s > 0 else None
