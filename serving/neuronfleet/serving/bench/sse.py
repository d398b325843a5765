"""A streamed answer as it comes in: when its tokens came and how many, at little cost.

A client that follows 4,000 chunks a second cannot decode the JSON of each. vLLM counts the tokens
so far in every chunk (`continuous_usage_stats`), so the last count in what has arrived is enough;
whole JSON is read up to the first token, and once at the end. A quote inside generated text is
escaped, so text never looks like a key.
"""

import json
import re
from collections.abc import Iterator

_COUNT = b'"completion_tokens":'
_CHOICE = b'"finish_reason"'
_MARK = re.compile(rb'^data: ?(?:(\[DONE\])|\{ ?"error")', re.MULTILINE)
_DIGITS = re.compile(rb" ?([0-9]+)")


class SseScanner:
    """Takes the bytes of one answer; times are whatever clock `feed` is given."""

    __slots__ = (
        "_counted",
        "_tail",
        "done",
        "error",
        "first_at",
        "first_tokens",
        "last_at",
        "prompt_tokens",
        "tokens",
    )

    def __init__(self) -> None:
        self.tokens = 0
        """Tokens so far, by the server's count."""
        self.first_at: float | None = None
        """When the first token came."""
        self.first_tokens: int | None = None
        """Tokens in the chunk that brought it; None where the server does not count by chunk."""
        self.last_at: float | None = None
        """When the last token came."""
        self.prompt_tokens: int | None = None
        """By the server's count, known at the end."""
        self.done = False
        """Whether the answer's end mark came."""
        self.error = False
        """Whether the server broke off with an error event."""
        self._tail = b""
        self._counted = b""

    def feed(self, data: bytes, now: float) -> None:
        """Take what arrived at `now`, cut anywhere."""
        if self._tail:
            data = self._tail + data
        end = data.rfind(b"\n") + 1
        if end != len(data):
            self._tail, data = data[end:], data[:end]
        else:
            self._tail = b""
        if data:
            self._scan(data, now)

    def finish(self, now: float) -> None:
        """Take the end of the answer: read its usage in full."""
        if self._tail:
            data, self._tail = self._tail, b""
            self._scan(data, now)
        for event in _events(self._counted):
            usage = event.get("usage")
            if isinstance(usage, dict):
                self.prompt_tokens = _whole(usage.get("prompt_tokens"))
                self.tokens = _whole(usage.get("completion_tokens")) or self.tokens

    def _scan(self, data: bytes, now: float) -> None:
        if self.first_at is None:
            self._seek_first(data, now)
        at = data.rfind(_COUNT)
        if at >= 0:
            self._counted = data
            digits = _DIGITS.match(data, at + len(_COUNT))
            tokens = int(digits[1]) if digits else 0
            if tokens > self.tokens:
                self.tokens = tokens
                if self.first_tokens is not None:
                    self.last_at = now
        if self.first_tokens is None and self.first_at is not None and _CHOICE in data:
            self.last_at = now
        mark = _MARK.search(data)
        if mark is not None:
            self.done = self.done or mark[1] is not None
            self.error = self.error or mark[1] is None

    def _seek_first(self, data: bytes, now: float) -> None:
        for event in _events(data):
            usage = event.get("usage")
            count = _whole(usage.get("completion_tokens")) if isinstance(usage, dict) else None
            if count or (count is None and _has_text(event)):
                self.first_at, self.first_tokens = now, count
                return


def _events(data: bytes) -> Iterator[dict[str, object]]:
    """The JSON objects among whole lines; what is none says nothing about tokens."""
    for line in data.splitlines():
        if not line.startswith(b"data:"):
            continue
        try:
            event = json.loads(line[5:])
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _has_text(event: dict[str, object]) -> bool:
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        delta = choice.get("delta", choice) if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            continue
        if delta.get("text") or delta.get("content") or delta.get("reasoning_content"):
            return True
    return False


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
