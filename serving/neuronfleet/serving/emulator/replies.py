"""Answers in vLLM's shapes: whole ones as JSON, streamed ones as preformatted SSE bytes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from neuronfleet.serving.emulator.requests import Ask
from neuronfleet.serving.emulator.sampling import Kind
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.emulator.tokens import Output

VERSION = "0.32.0"
"""vLLM whose API this is."""
FINGERPRINT = f"vllm-{VERSION}-emulated"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What all chunks of one answer share."""

    id: str
    created: int


def dump(value: object) -> str:
    """Compact JSON, as vLLM sends."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, object]:
    """The counts of an answer, in vLLM's order."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def model_list(settings: ReplicaSettings, created: int) -> dict[str, object]:
    """The body of /v1/models."""
    return {"object": "list", "data": [_card(settings, one, created) for one in settings.models]}


def _card(settings: ReplicaSettings, name: str, created: int) -> dict[str, object]:
    permission = {
        "id": f"modelperm-{created:016x}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": settings.model,
        "parent": None,
        "max_model_len": settings.max_model_len,
        "permission": [permission],
    }


def whole(ask: Ask, head: Head, outputs: Sequence[Output]) -> dict[str, object]:
    """The answer to a request that does not stream; empty outputs make a dead engine's."""
    make = _completion_choice if ask.kind is Kind.COMPLETION else _chat_choice
    counts = usage(
        sum(prompt.tokens for prompt in ask.prompts), sum(output.tokens for output in outputs)
    )
    reply: dict[str, object] = {
        "id": head.id,
        "object": "text_completion" if ask.kind is Kind.COMPLETION else "chat.completion",
        "created": head.created,
        "model": ask.model,
        "choices": [make(index, output) for index, output in enumerate(outputs)],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": {**counts, "prompt_tokens_details": None, "completion_tokens_details": None},
    }
    if ask.kind is Kind.CHAT:
        reply |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
    return reply | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


def _completion_choice(index: int, output: Output) -> dict[str, object]:
    return {
        "index": index,
        "text": output.piece(0, output.tokens).decode(),
        "logprobs": None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def _chat_choice(index: int, output: Output) -> dict[str, object]:
    message = {
        "role": "assistant",
        "content": output.piece(0, output.tokens).decode(),
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "token_ids": None,
        "routed_experts": None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The SSE events of one choice, all but text and counts built beforehand."""

    opening: bytes
    """Chat's role chunk; empty for a completion."""
    before: bytes
    """A chunk up to its text."""
    after: bytes
    """A chunk from its text to its end, but for the usage."""
    last: bytes
    """Likewise of the last chunk."""
    prompt_tokens: int
    details: bytes
    counted: bool
    """Whether every chunk carries the usage so far."""

    def chunk(self, text: bytes, produced: int, *, last: bool) -> bytes:
        """One event."""
        end = self.last if last else self.after
        if not self.counted:
            return b"%b%b%b}\n\n" % (self.before, text, end)
        return (
            b'%b%b%b,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d%b}}\n\n'
            % (
                self.before,
                text,
                end,
                self.prompt_tokens,
                self.prompt_tokens + produced,
                produced,
                self.details,
            )
        )


def frames(ask: Ask, head: Head, index: int) -> Frames:
    """The events of choice `index`."""
    chat, output = ask.kind is Kind.CHAT, ask.outputs[index]
    prompt_tokens = ask.prompt_of(index).tokens
    start = _chunk_start(ask, head)
    before = f'{start}[{{"index":{index},' + ('"delta":{"content":"' if chat else '"text":"')
    reason, stop = dump(output.finish_reason), dump(output.stop_reason)
    # Usage on the way or at the end, the fingerprint rides on the very last chunk.
    mark = "" if ask.include_usage else f',"system_fingerprint":"{FINGERPRINT}"'
    if chat:
        after = '"},"logprobs":null,"finish_reason":null,"token_ids":null}]'
        last = (
            f'"}},"logprobs":null,"finish_reason":{reason},"stop_reason":{stop},"token_ids":null}}]'
        )
    else:
        ids = '"prompt_token_ids":null,"token_ids":null}]'
        after = f'","logprobs":null,"finish_reason":null,"stop_reason":null,{ids}'
        last = f'","logprobs":null,"finish_reason":{reason},"stop_reason":{stop},{ids}'
    return Frames(
        opening=_opening(ask, start, index) if chat else b"",
        before=before.encode(),
        after=after.encode(),
        last=(last + mark).encode(),
        prompt_tokens=prompt_tokens,
        details=b',"completion_tokens_details":null' if chat else b"",
        counted=ask.continuous_usage,
    )


def _chunk_start(ask: Ask, head: Head) -> str:
    kind = "chat.completion.chunk" if ask.kind is Kind.CHAT else "text_completion"
    return (
        f'data: {{"id":{dump(head.id)},"object":"{kind}","created":{head.created},'
        f'"model":{dump(ask.model)},"choices":'
    )


def _opening(ask: Ask, start: str, index: int) -> bytes:
    delta = '"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
    counts = ""
    if ask.continuous_usage:
        none = usage(ask.prompt_of(index).tokens, 0) | {"completion_tokens_details": None}
        counts = f',"usage":{dump(none)}'
    tail = ',"prompt_token_ids":null,"prompt_text":null}\n\n'
    return f'{start}[{{"index":{index},{delta}{counts}{tail}'.encode()


def closing(ask: Ask, head: Head) -> bytes:
    """What follows the last choice: the usage where it was asked for, then the end mark."""
    if not ask.include_usage:
        return DONE
    counts = usage(
        sum(prompt.tokens for prompt in ask.prompts), sum(output.tokens for output in ask.outputs)
    )
    start = _chunk_start(ask, head)
    return (
        f'{start}[],"usage":{dump(counts)},"system_fingerprint":"{FINGERPRINT}"}}\n\n'.encode()
        + DONE
    )
