"""What a replica's work costs in time: the timing model of one variant.

The form is law 2 of the design. A prompt runs alone (batch 1) in the smallest compiled prefill
bucket that is strictly longer than it; a decode step carries every slot at once and runs the
smallest decode bucket strictly longer than the longest sequence. All durations are milliseconds.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from enum import StrEnum

from neuronfleet.serving.api.problems import SpecError


class Basis(StrEnum):
    """How a timing model came about, from best to weakest."""

    MEASURED = "measured"
    """Fitted to runs of this model on this accelerator at this degree."""
    SCALED = "scaled"
    """A fit of a comparable model or accelerator, scaled by bytes and operations."""
    ROOFLINE = "roofline"
    """Bandwidth and arithmetic peaks alone: a lower bound of time, not a prediction."""


class PromptTooLongError(ValueError):
    """No prefill bucket is longer than the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Milliseconds by compiled length bucket, in tokens."""

    tokens: tuple[int, ...]
    """Bucket lengths, ascending."""
    ms: tuple[float, ...]
    """Cost of one run of each."""

    def __post_init__(self) -> None:
        if not self.tokens or len(self.tokens) != len(self.ms):
            raise SpecError(f"buckets = {self.tokens}, must match the {len(self.ms)} durations")
        if list(self.tokens) != sorted(set(self.tokens)) or min(self.ms) < 0:
            raise SpecError(f"buckets = {self.tokens}: {self.ms}, must ascend with durations >= 0")

    def index(self, length: int) -> int | None:
        """Index of the bucket that `length` tokens run in, None past the last.

        Strict, as NxDI chooses: 1023 tokens run the 1024 bucket, 1024 tokens the 2048 one.
        """
        at = bisect_right(self.tokens, length)
        return at if at < len(self.tokens) else None

    def edge(self, length: int) -> int:
        """First length that no longer runs in the bucket of `length`."""
        at = self.index(length)
        return self.tokens[-1] if at is None else self.tokens[at]

    def resized(self, tokens: tuple[int, ...]) -> "Buckets":
        """Costs of other bucket lengths, on the lines through the known ones."""
        return Buckets(tokens=tokens, ms=tuple(self._on_line(size) for size in tokens))

    def times(self, factor: float) -> "Buckets":
        """The same lengths at another speed."""
        return Buckets(tokens=self.tokens, ms=tuple(one * factor for one in self.ms))

    def _on_line(self, size: int) -> float:
        """Piecewise linear through the known costs; proportional where only one is known."""
        if len(self.tokens) == 1:
            return self.ms[0] * size / self.tokens[0]
        right = min(max(1, bisect_left(self.tokens, size)), len(self.tokens) - 1)
        (x0, x1), (y0, y1) = self.tokens[right - 1 : right + 1], self.ms[right - 1 : right + 1]
        return max(0.0, y0 + (y1 - y0) * (size - x0) / (x1 - x0))

    def cost(self, length: int) -> float:
        """Milliseconds of the bucket that `length` runs in; the last one's past the end."""
        at = self.index(length)
        return self.ms[-1 if at is None else at]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingModel:
    """Durations of one replica's prefill and decode."""

    prefill: Buckets
    prefill_ms_per_token: float = 0.0
    """Added for each prompt token (copying and sampling grow with the prompt)."""
    host_ms: float = 0.0
    """Tokenizing and scheduling of a request; overlaps what the device runs meanwhile."""
    decode: Buckets
    decode_ms_per_slot: float = 0.0
    """Added for each occupied slot after the first."""
    first_ms: float = 0.0
    """Added once, to the first request after boot."""
    basis: Basis
    source: str
    """Where the constants come from, in words."""
    fitted_to: int = 0
    """Measured points behind the fit; 0 where nothing was measured."""

    def prefill_cost(self, prompt_tokens: int) -> float:
        """Milliseconds of device time that one prompt takes."""
        if self.prefill.index(prompt_tokens) is None:
            longest = self.prefill.tokens[-1]
            raise PromptTooLongError(f"prompt of {prompt_tokens} tokens, must be below {longest}")
        return self.prefill.cost(prompt_tokens) + self.prefill_ms_per_token * prompt_tokens

    def step_cost(self, longest: int, occupied: int) -> float:
        """Milliseconds of a decode step whose longest sequence holds `longest` tokens."""
        return self.decode.cost(longest) + self.decode_ms_per_slot * (occupied - 1)

    def for_buckets(
        self, prefill: tuple[int, ...], decode: tuple[int, ...] | None = None
    ) -> "TimingModel":
        """The same replica with these buckets compiled; unmeasured ones lie on the line between."""
        return replace(
            self,
            prefill=self.prefill.resized(prefill),
            decode=self.decode.resized(decode or prefill),
        )

    def scaled(self, *, prefill: float, decode: float, source: str) -> "TimingModel":
        """All device costs times a factor for prefill and one for decode; the host's stay."""
        return replace(
            self,
            prefill=self.prefill.times(prefill),
            prefill_ms_per_token=self.prefill_ms_per_token * prefill,
            decode=self.decode.times(decode),
            decode_ms_per_slot=self.decode_ms_per_slot * decode,
            basis=Basis.SCALED,
            source=source,
            fitted_to=0,
        )
