"""What clients send, and what they are promised."""

from dataclasses import dataclass

from neuronfleet.serving.api.fields import Fields

_TOKENS = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A distribution of token counts: values with their shares."""

    values: tuple[tuple[int, float], ...]
    """(tokens, share), shares summing to 1."""

    @property
    def mean(self) -> float:
        """Mean tokens."""
        return sum(tokens * share for tokens, share in self.values)

    @property
    def longest(self) -> int:
        """Most tokens that occur."""
        return max(tokens for tokens, _ in self.values)

    def at(self, share: float) -> int:
        """Tokens at a cumulative share in [0, 1): how one request's length is drawn."""
        passed = 0.0
        for tokens, part in self.values:
            passed += part
            if share < passed:
                return tokens
        return self.values[-1][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The declared load of a fleet: open (a rate) or closed (a concurrency)."""

    requests_per_second: float | None
    """Open: requests arrive at this rate whatever the fleet does."""
    concurrency: int | None
    """Closed: this many clients each send the next request as the last one ends."""
    input_tokens: Lengths
    """Prompt tokens of a request."""
    output_tokens: Lengths
    """Answer tokens of a request."""

    def __str__(self) -> str:
        if self.concurrency is not None:
            load = f"closed loop of {self.concurrency}"
        else:
            load = f"{self.requests_per_second:g} req/s"
        return f"{load} at {self.input_tokens.mean:g}/{self.output_tokens.mean:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The service objective of a request."""

    ttft_ms: float
    """Time to the first token that a request must meet, milliseconds."""
    tpot_ms: float
    """Time per output token after the first that a request must meet, milliseconds."""
    percentile: float
    """Percentile at which latencies are reported and held."""
    attainment: float
    """Share of requests that must meet both times."""


def read_traffic(fields: Fields) -> Traffic:
    """Parse `spec.traffic`."""
    opened, closed = fields.section("open"), fields.section("closed")
    rate = concurrency = None
    if ("open" in fields) == ("closed" in fields):
        given = "both" if "open" in fields else "nothing"
        fields.problems_at(given, "must have exactly one of open, closed")
    elif "open" in fields:
        rate = opened.number("requestsPerSecond", 0.0001, 100_000)
        opened.close()
    else:
        concurrency = closed.integer("concurrency", 1, 1_000_000)
        closed.close()
    traffic = Traffic(
        requests_per_second=rate,
        concurrency=concurrency,
        input_tokens=_read_lengths(fields, "input"),
        output_tokens=_read_lengths(fields, "output"),
    )
    fields.close()
    return traffic


def _read_lengths(fields: Fields, side: str) -> Lengths:
    """`inputTokens: 1024`, or `inputLengths` as a list of `{tokens, share}`.

    Two fields, since a field of a Kubernetes schema has one type.
    """
    one, many = f"{side}Tokens", f"{side}Lengths"
    if many not in fields:
        fields.items(many, most=64)
        return Lengths(values=((fields.integer(one, 1, _TOKENS), 1.0),))
    if one in fields:
        fields.problem(one, "given", f"must not be given beside {many}")
    fields.integer(one, 1, _TOKENS, 1)
    values = []
    for item in fields.items(many, most=64):
        values.append((item.integer("tokens", 1, _TOKENS), item.number("share", 0, 1)))
        item.close()
    total = sum(share for _, share in values)
    if abs(total - 1) > 1e-6:
        fields.problem(many, f"shares of {total:g}", "must sum to 1")
    return Lengths(values=tuple(sorted(values)) or ((1, 1.0),))


def read_objective(fields: Fields) -> Objective:
    """Parse `spec.objective`."""
    objective = Objective(
        ttft_ms=fields.number("ttftMs", 1, 3_600_000),
        tpot_ms=fields.number("tpotMs", 0.1, 60_000),
        percentile=fields.number("percentile", 50, 99.9, 90),
        attainment=fields.number("attainment", 0.5, 0.999, 0.95),
    )
    fields.close()
    return objective
