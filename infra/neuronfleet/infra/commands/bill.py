"""A month's bill: what is known of each line, and sums that never take unknown for nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

HOURS_PER_MONTH = 730
"""8,760 hours a year over 12."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that is paid for."""

    stack: str
    """Id of the stack that makes it."""
    pool: str | None = None
    """Name of the pool it is part of."""
    what: str
    unit: str
    """hour, month, GB, GB-month, GiB-month, or what else is counted."""
    usd: float | None
    """Of one unit; None: unknown."""
    idle: float | None
    """Units a month with every pool at its minimum; None: it goes by use."""
    most: float | None
    """Units a month with every pool at its maximum; None: it goes by use."""
    source: str
    """Where the price is from, or why it is unknown."""

    @property
    def idle_usd(self) -> float | None:
        """Dollars a month at the minimum; None: unknown."""
        return _amount(self.usd, self.idle)

    @property
    def most_usd(self) -> float | None:
        """Dollars a month at the maximum; None: unknown."""
        return _amount(self.usd, self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of lines."""

    usd: float
    """Of what is known: where anything is unknown, at least this."""
    unknown: tuple[str, ...] = ()
    """What is missing in it."""

    def __str__(self) -> str:
        return f"{'at least ' if self.unknown else ''}${self.usd:,.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one deployment costs a month."""

    region: str
    lines: tuple[Line, ...]

    def stacks(self) -> tuple[str, ...]:
        """Ids of the stacks, in the order of their lines."""
        return tuple(dict.fromkeys(line.stack for line in self.lines))

    def pools(self) -> tuple[str, ...]:
        """Names of the pools, in the order of their lines."""
        return tuple(dict.fromkeys(line.pool for line in self.lines if line.pool is not None))

    def idle(self, *, stack: str | None = None, pool: str | None = None) -> Total:
        """At the minimum: all, or of one stack or pool."""
        return _total((line.what, line.idle_usd) for line in self._of(stack, pool))

    def most(self, *, stack: str | None = None, pool: str | None = None) -> Total:
        """At the maximum: all, or of one stack or pool."""
        return _total((line.what, line.most_usd) for line in self._of(stack, pool))

    def _of(self, stack: str | None, pool: str | None) -> list[Line]:
        return [
            line for line in self.lines if stack in (None, line.stack) and pool in (None, line.pool)
        ]


def _amount(usd: float | None, units: float | None) -> float | None:
    """No units cost nothing at any price; otherwise one unknown makes the amount unknown."""
    if units == 0:
        return 0.0
    return None if usd is None or units is None else usd * units


def _total(amounts: Iterable[tuple[str, float | None]]) -> Total:
    known, unknown = 0.0, []
    for what, usd in amounts:
        if usd is None:
            unknown.append(what)
        else:
            known += usd
    return Total(usd=known, unknown=tuple(unknown))
