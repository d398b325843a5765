"""Sampling parameters of a request: their types and their ranges."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.emulator.errors import bad_request, invalid
from neuronfleet.serving.emulator.fields import Fields

DEFAULT_COMPLETION_TOKENS = 16
MOST_STOPS = 4


class Kind(StrEnum):
    """Which endpoint."""

    COMPLETION = "cmpl"
    CHAT = "chatcmpl"


_MOST_SEQUENCES = 16_384
"""vLLM's own limit of sequences a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The typed fields of a body."""

    model: str | None
    max_tokens: int | None
    min_tokens: int
    n: int
    temperature: float | None
    stops: tuple[str, ...]
    keep_stop: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    keep: int | None

    @classmethod
    def read(cls, kind: Kind, fields: Fields) -> "Wanted":
        """Read them all.

        Raises:
            ApiError: some are of the wrong type.
        """
        options = fields.nested("stream_options")
        longest = fields.integer("max_tokens")
        if kind is Kind.CHAT:
            # The newer name wins where both are given.
            newer = fields.integer("max_completion_tokens")
            longest = longest if newer is None else newer
        elif longest is None:
            longest = DEFAULT_COMPLETION_TOKENS
        n, minimum = fields.integer("n"), fields.integer("min_tokens")
        wanted = cls(
            model=fields.string("model"),
            max_tokens=longest,
            min_tokens=minimum or 0,
            n=1 if n is None else n,
            temperature=fields.number("temperature"),
            stops=fields.strings("stop", MOST_STOPS),
            keep_stop=fields.boolean("include_stop_str_in_output"),
            stream=fields.boolean("stream"),
            include_usage=options.boolean("include_usage"),
            continuous_usage=options.boolean("continuous_usage_stats"),
            keep=fields.integer("truncate_prompt_tokens"),
        )
        if wanted.keep is not None and (wanted.keep == 0 or wanted.keep < -1):
            # -1 stands for the whole context.
            message = "Input should be greater than or equal to -1, and not 0"
            fields.flaw("truncate_prompt_tokens", "greater_than_equal", message)
        fields.integer("seed")
        fields.boolean("ignore_eos")
        for name in ("top_p", "presence_penalty", "frequency_penalty"):
            fields.number(name)
        if flaws := fields.flaws + options.flaws:
            raise invalid(flaws)
        return wanted


def check_sampling(fields: Fields, wanted: Wanted, limits: Sequence[int]) -> None:
    """Refuse what is out of range; `limits` are the answers' tokens.

    Raises:
        ApiError: something is.
    """
    if wanted.n < 1:
        raise bad_request(f"n must be at least 1, got {wanted.n}.")
    if wanted.n > _MOST_SEQUENCES:
        raise bad_request(f"n must be at most {_MOST_SEQUENCES}, got {wanted.n}.")
    _check_penalties(fields)
    heat = wanted.temperature
    if heat is not None and heat < 0:
        raise bad_request(f"temperature must be non-negative, got {heat}.", "temperature", heat)
    if heat is not None and heat > 2:
        raise bad_request(f"temperature must be in [0, 2], got {heat}.", "temperature", heat)
    top = fields.number("top_p")
    if top is not None and not 0 < top <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {top}.", "top_p", top)
    least, floor = min(limits), wanted.min_tokens
    if least < 1:
        raise bad_request(f"max_tokens must be at least 1, got {least}.", "max_tokens", least)
    if floor < 0:
        raise bad_request(f"min_tokens must be greater than or equal to 0, got {floor}.")
    if floor > least:
        raise bad_request(
            f"min_tokens must be less than or equal to max_tokens={least}, got {floor}."
        )
    if "" in wanted.stops:
        raise bad_request("stop cannot contain an empty string.")
    if heat == 0 and wanted.n > 1:
        raise bad_request(f"n must be 1 when using greedy sampling, got {wanted.n}.")


def _check_penalties(fields: Fields) -> None:
    for name in ("presence_penalty", "frequency_penalty"):
        value = fields.number(name)
        if value is not None and not -2 <= value <= 2:
            raise bad_request(f"{name} must be in [-2, 2], got {value}.")
