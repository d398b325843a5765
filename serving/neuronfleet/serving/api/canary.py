"""The question that a replica must answer before it is ready."""

from dataclasses import dataclass

from neuronfleet.serving.api.fields import Fields

_PROMPT = "The capital of France is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A short completion: an engine that is dead, or answers nonsense, fails it."""

    prompt: str = _PROMPT
    """What is asked."""
    max_tokens: int = 4
    """Tokens of the answer; few, since a canary takes a slot."""
    expect: str | None = None
    """Regular expression searched for in the answer, in RE2's syntax; None takes any text."""


def read_canary(fields: Fields) -> Canary:
    """Parse `spec.canary`."""
    canary = Canary(
        prompt=fields.text("prompt", _PROMPT),
        max_tokens=fields.integer("maxTokens", 1, 64, 4),
        expect=fields.regex("expect"),
    )
    fields.close()
    return canary
