"""What a client saw of one request."""

from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.api.traffic import Objective


class Status(StrEnum):
    """How a request came out."""

    OK = "ok"
    REFUSED = "refused"
    """No room: 503 or 429."""
    REJECTED = "rejected"
    """Any other 4xx: the server would not take such a request at any time."""
    EMPTY = "empty"
    """200 without a token: what a dead engine answers."""
    CUT = "cut"
    """The stream ended before its end."""
    FAILED = "failed"
    """No connection, none that lasted until an answer, or a 5xx."""
    UNFINISHED = "unfinished"
    """Still running as the run ended: neither a success nor a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One request; times are the fleet's seconds since the start of the run."""

    number: int
    status: Status
    scheduled_s: float
    """When it was due."""
    sent_s: float
    """When it was handed to the connection: later than due where the client fell behind."""
    first_s: float | None = None
    """First token."""
    last_s: float | None = None
    """Last token."""
    ended_s: float
    """End of the answer, or when it was given up."""
    asked_prompt_tokens: int
    asked_tokens: int
    prompt_tokens: int | None = None
    """By the server's usage, as are all that follow."""
    tokens: int = 0
    first_tokens: int | None = None
    """Tokens in the chunk that brought the first one."""
    http_status: int | None = None
    retry_after_s: float | None = None
    """As the server's header says: real seconds."""
    error: str | None = None
    """What broke, where something did."""

    @property
    def dispatch_lag_s(self) -> float:
        """How late the client sent it."""
        return self.sent_s - self.scheduled_s

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, from when it was due: a late client or queue hides nothing."""
        return None if self.first_s is None else self.first_s - self.scheduled_s

    @property
    def tpot_s(self) -> float | None:
        """Time per token after the first chunk's; None where there are none, or no count of them.

        Chunks may carry several tokens: over all tokens but one, four a chunk would look fast.
        """
        if self.first_s is None or self.last_s is None or self.first_tokens is None:
            return None
        later = self.tokens - self.first_tokens
        return (self.last_s - self.first_s) / later if later > 0 else None

    def meets(self, objective: Objective) -> bool:
        """Whether it came out well and in time."""
        if self.status is not Status.OK or self.ttft_s is None:
            return False
        if self.ttft_s * 1000 > objective.ttft_ms:
            return False
        return self.tpot_s is None or self.tpot_s * 1000 <= objective.tpot_ms
