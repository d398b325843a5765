"""What a client asks for: a request body, parsed and checked in vLLM's order."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from neuronfleet.serving.emulator.errors import ApiError, Flaw, bad_request, invalid, unknown_model
from neuronfleet.serving.emulator.fields import Fields
from neuronfleet.serving.emulator.prompts import (
    bucket_error,
    check_length,
    completion_prompts,
    conversation,
)
from neuronfleet.serving.emulator.sampling import Kind, Wanted, check_sampling
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.emulator.tokens import Output, Prompt, plan_output

_OTHER_CHOICE = 331
"""Tokens by which the answers of one prompt's choices lie apart in the cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that will be served."""

    kind: Kind
    model: str
    prompts: tuple[Prompt, ...]
    outputs: tuple[Output, ...]
    """Choices in order of their index: all of the first prompt's, then the next one's."""
    n: int
    max_tokens: int
    """As the client's limit came out, for the metric."""
    stream: bool
    include_usage: bool
    continuous_usage: bool

    def prompt_of(self, index: int) -> Prompt:
        """The prompt that a choice answers."""
        return self.prompts[index // self.n]


def read_body(data: bytes, content_type: str) -> Mapping[str, object]:
    """The JSON object of a request.

    Raises:
        ApiError: it is none.
    """
    if content_type.lower() != "application/json":
        text = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(400, "Bad Request", text)
    if not data:
        raise invalid([Flaw(kind="missing", loc="body", message="Field required", value=None)])
    try:
        body = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else error.start
        flaw = Flaw(kind="json_invalid", loc=f"body.{at}", message="JSON decode error", value={})
        raise invalid([flaw]) from error
    except RecursionError as error:
        flaw = Flaw(kind="json_invalid", loc="body", message="JSON nested too deep", value={})
        raise invalid([flaw]) from error
    if not isinstance(body, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise invalid([Flaw(kind="model_attributes_type", loc="body", message=message, value=body)])
    return body


def parse(
    kind: Kind, body: Mapping[str, object], settings: ReplicaSettings, *, garbage: bool = False
) -> Ask:
    """The request as it will be served.

    Raises:
        ApiError: vLLM would refuse it.
    """
    fields = Fields(body)
    if kind is Kind.COMPLETION and fields.raw("prompt") in (None, ""):
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise bad_request(message, "prompt")
    if fields.raw("stream_options") is not None and fields.raw("stream") in (None, False):
        raise bad_request(
            "Stream options can only be defined when `stream=True`.", "stream_options"
        )
    wanted = Wanted.read(kind, fields)
    if wanted.model is not None and wanted.model not in settings.models:
        raise unknown_model(wanted.model, settings.models)
    _refuse_unsupported(fields)
    limit = settings.max_model_len
    if wanted.max_tokens is not None and wanted.max_tokens > limit:
        raise bad_request(
            f"max_tokens={wanted.max_tokens} cannot be greater than max_model_len={limit}. "
            "Please request fewer output tokens.",
            "max_tokens",
            wanted.max_tokens,
        )
    return _serve(kind, fields, wanted, settings, garbage)


def _refuse_unsupported(fields: Fields) -> None:
    if fields.raw("suffix") is not None:
        text = "suffix is only supported for models with FIM completion rendering"
        raise ApiError(400, "BadRequestError", text, "suffix")
    if fields.raw("echo"):
        raise bad_request("echo is not emulated")
    if fields.raw("logprobs") not in (None, False) or fields.raw("prompt_logprobs") is not None:
        # As seen on Neuron: sampling on the device returns no logits, and the engine raises.
        text = "logprobs are not available with on-device sampling"
        raise ApiError(500, "InternalServerError", text)


def _serve(
    kind: Kind, fields: Fields, wanted: Wanted, settings: ReplicaSettings, garbage: bool
) -> Ask:
    keep = settings.max_model_len if wanted.keep == -1 else wanted.keep
    if kind is Kind.CHAT:
        prompts: tuple[Prompt, ...] = (conversation(fields.raw("messages"), keep),)
    else:
        prompts = completion_prompts(fields.raw("prompt"), keep)
    raw = fields.raw("prompt")
    exact = isinstance(raw, list) and not isinstance(raw[0], str)
    limits = [_limit(prompt, wanted, settings, exact=exact) for prompt in prompts]
    check_sampling(fields, wanted, limits)
    for prompt in prompts:
        if settings.timing.prefill.index(prompt.tokens) is None:
            raise bucket_error(prompt, settings.timing.prefill.tokens[-1])
    return Ask(
        kind=kind,
        model=wanted.model or settings.model,
        prompts=prompts,
        outputs=tuple(
            _output(prompt, limit, wanted, choice, garbage)
            for prompt, limit in zip(prompts, limits, strict=True)
            for choice in range(wanted.n)
        ),
        n=wanted.n,
        max_tokens=max(limits),
        stream=wanted.stream,
        include_usage=wanted.include_usage,
        continuous_usage=wanted.include_usage and wanted.continuous_usage,
    )


def _output(prompt: Prompt, limit: int, wanted: Wanted, choice: int, garbage: bool) -> Output:
    return plan_output(
        prompt.start + choice * _OTHER_CHOICE,
        limit,
        wanted.stops,
        min_tokens=wanted.min_tokens,
        keep_stop=wanted.keep_stop,
        garbage=garbage,
    )


def _limit(prompt: Prompt, wanted: Wanted, settings: ReplicaSettings, *, exact: bool) -> int:
    """Tokens that the answer may have; 0 and less are refused later, as vLLM does."""
    check_length(prompt, settings.max_model_len, exact=exact)
    room, asked = settings.max_model_len - prompt.tokens, wanted.max_tokens
    if asked is None or asked <= room:
        return room if asked is None else asked
    if settings.generation == 1:
        # The vLLM under generation 1 refuses what the newer one silently cuts.
        limit = settings.max_model_len
        raise bad_request(
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum "
            f"context length is {limit} tokens and your request has {prompt.tokens} input tokens "
            f"({asked} > {limit} - {prompt.tokens}).",
            "max_tokens",
            asked,
        )
    return room
