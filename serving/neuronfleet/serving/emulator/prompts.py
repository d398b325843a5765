"""The prompt of a request, tokenized: text, list of texts, ids, lists of ids, or a conversation."""

from collections.abc import Sequence

from neuronfleet.serving.emulator.errors import ApiError, Flaw, bad_request, invalid
from neuronfleet.serving.emulator.tokens import (
    VOCABULARY,
    Prompt,
    chat_prompt,
    id_prompt,
    text_prompt,
)


def completion_prompts(raw: object, keep: int | None) -> tuple[Prompt, ...]:
    """Prompts of a completion, in order.

    Raises:
        ApiError: `raw` is no prompt.
    """
    if isinstance(raw, str):
        return (text_prompt(raw, keep),)
    if not isinstance(raw, list):
        raise invalid([_flaw("prompt", raw, "list_type", "list")])
    if not raw:
        raise bad_request("You must pass at least one prompt")
    if all(isinstance(one, str) for one in raw):
        return tuple(text_prompt(one, keep) for one in raw)
    if all(isinstance(one, list) for one in raw):
        return tuple(id_prompt(_ids(one), keep) for one in raw)
    return (id_prompt(_ids(raw), keep),)


def _ids(raw: Sequence[object]) -> list[int]:
    ids: list[int] = []
    for at, one in enumerate(raw):
        if not isinstance(one, int) or isinstance(one, bool) or one < 0:
            raise invalid([_flaw(f"prompt.{at}", one, "int_type", "integer")])
        if one >= VOCABULARY:
            raise bad_request(f"Token id {one} is out of vocabulary")
        ids.append(one)
    if not ids:
        raise bad_request("The decoder prompt cannot be empty")
    return ids


def conversation(raw: object, keep: int | None) -> Prompt:
    """The prompt that the chat template makes of the messages.

    Raises:
        ApiError: `raw` is no list of messages.
    """
    if not isinstance(raw, list):
        kind = "missing" if raw is None else "list_type"
        raise invalid([_flaw("messages", raw, kind, "list")])
    if not raw:
        message = "Cannot apply chat template to an empty conversation. "
        raise bad_request(message + "Provide at least one message.")
    return chat_prompt([_content(at, message) for at, message in enumerate(raw)], keep)


def _content(at: int, message: object) -> str:
    loc = f"messages.{at}"
    if not isinstance(message, dict):
        raise invalid([_flaw(loc, message, "dict_type", "dictionary")])
    if not isinstance(message.get("role"), str):
        raise invalid([_flaw(f"{loc}.role", message, "missing", "string")])
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(f"{loc}.content.{n}", part) for n, part in enumerate(content))
    raise invalid([_flaw(f"{loc}.content", content, "string_type", "string")])


def _part(loc: str, part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise invalid([_flaw(f"{loc}.text", part, "string_type", "string")])
    return text


def _flaw(loc: str, value: object, kind: str, wanted: str) -> Flaw:
    message = "Field required" if kind == "missing" else f"Input should be a valid {wanted}"
    return Flaw(kind=kind, loc=f"body.{loc}", message=message, value=value)


def check_length(prompt: Prompt, max_model_len: int, *, exact: bool) -> None:
    """Refuse a prompt that leaves no room at all; texts are only tokenized a token too far.

    Raises:
        ApiError: it is longer than the context.
    """
    if prompt.tokens <= max_model_len:
        return
    counted = prompt.tokens if exact else max_model_len + 1
    shown = f"{counted}" if exact else f"at least {counted}"
    raise bad_request(
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
        f"contains {shown} input tokens, which exceeds this limit even without any output tokens. "
        "Please reduce the length of the input prompt.",
        "input_tokens",
        counted,
    )


def bucket_error(prompt: Prompt, longest: int) -> ApiError:
    """The emulator's own words: no compiled prefill graph is longer than the prompt."""
    return bad_request(
        f"The prompt contains {prompt.tokens} input tokens, must be below {longest}, the longest "
        "compiled prefill bucket.",
        "input_tokens",
        prompt.tokens,
    )
