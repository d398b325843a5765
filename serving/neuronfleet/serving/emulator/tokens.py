"""Tokens and text of the emulator: what a prompt counts, and what the answer to it is.

A word is a token, so that a client can make a prompt of an exact length. The answer is a function
of the prompt alone, so that a canary can know it; every token of it is a space and five letters,
so that the text of any token is found without building what stands before it.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

BOS = 1
"""Tokens that the tokenizer puts before a text, as Llama's does; a list of ids has none."""
CHAT_MESSAGE_TOKENS = 4
"""Template tokens around each message: header start, role, header end, end of turn."""
CHAT_REPLY_TOKENS = 3
"""Template tokens that open the answer."""
VOCABULARY = 128_256
"""Ids are below this, as Llama 3's."""

WIDTH = 6
"""Characters a token: a space and five letters."""
PERIOD = 1024
"""Tokens after which the text repeats."""
_WORDS = (
    *("amber", "bison", "cabin", "delta", "eagle", "fable", "giant", "hazel"),
    *("igloo", "jolly", "karma", "lemon", "maple", "noble", "ocean", "pearl"),
    *("quilt", "raven", "solar", "tulip", "umber", "vivid", "whale", "xenon"),
    *("yacht", "zebra", "acorn", "birch", "cedar", "dunes", "ember", "flint"),
)
_CYCLE = Random("neuronfleet").choices(_WORDS, k=PERIOD)  # fixed: a canary relies on it
_TOKENS = [f" {word}".encode() for word in _CYCLE]
_GARBAGE = b" !!!!!"
"""What an engine with broken numerics repeats: one token, for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A tokenized prompt: its length, and where in the cycle its answer starts."""

    tokens: int
    start: int

    @classmethod
    def of(cls, pieces: Sequence[str], extra: int, keep: int | None = None) -> "Prompt":
        """`pieces` are tokens; `extra` the template's; `keep` cuts to the last so many."""
        tokens = len(pieces) + extra
        if keep is not None and tokens > keep:
            tokens, pieces = keep, pieces[-keep:]
        return cls(tokens=tokens, start=zlib.crc32(" ".join(pieces).encode()) % PERIOD)


def text_prompt(text: str, keep: int | None = None) -> Prompt:
    """A text: its words and one BOS."""
    return Prompt.of(text.split(), BOS, keep)


def id_prompt(ids: Sequence[int], keep: int | None = None) -> Prompt:
    """A list of ids, which counts as itself."""
    return Prompt.of([str(one) for one in ids], 0, keep)


def chat_prompt(contents: Sequence[str], keep: int | None = None) -> Prompt:
    """A conversation under the chat template."""
    words = [word for content in contents for word in content.split()]
    extra = BOS + CHAT_MESSAGE_TOKENS * len(contents) + CHAT_REPLY_TOKENS
    return Prompt.of(words, extra, keep)


def span(start: int, begin: int, end: int) -> bytes:
    """Tokens `begin` to `end` of the answer that starts at `start`; plain ASCII, no escapes."""
    if end == begin + 1:
        return _TOKENS[(start + begin) % PERIOD]
    return b"".join(_TOKENS[(start + at) % PERIOD] for at in range(begin, end))


def expected_text(prompt: str | Sequence[int], tokens: int) -> str:
    """The right answer to a completion, `tokens` long: what a content canary compares with."""
    asked = text_prompt(prompt) if isinstance(prompt, str) else id_prompt(prompt)
    return span(asked.start, 0, tokens).decode()


def expected_chat_text(contents: Sequence[str], tokens: int) -> str:
    """The right answer to a conversation, `tokens` long."""
    return span(chat_prompt(contents).start, 0, tokens).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One sequence of an answer, all of it known beforehand."""

    start: int
    tokens: int
    finish_reason: str = "length"
    stop_reason: str | None = None
    visible: int | None = None
    """Characters before the stop string that ended it; None where none did."""
    held: int = 0
    """Characters held back while they might begin a stop string."""
    garbage: bool = False

    @property
    def plain(self) -> bool:
        """Whether token k is just the k-th word of the cycle: all but stops and garbage."""
        return not (self.held or self.garbage or self.visible is not None)

    def word(self, at: int) -> bytes:
        """Token `at` of a plain answer, always `WIDTH` bytes."""
        return _TOKENS[(self.start + at) % PERIOD]

    def piece(self, begin: int, end: int) -> bytes:
        """What tokens `begin` to `end` add to the visible text."""
        if self.held or self.visible is not None:
            shown = self._characters(begin)
            return self._whole()[shown : max(shown, self._characters(end))]
        if self.garbage:
            return _GARBAGE * (end - begin)
        return span(self.start, begin, end)

    def _whole(self) -> bytes:
        return _GARBAGE * self.tokens if self.garbage else span(self.start, 0, self.tokens)

    def _characters(self, produced: int) -> int:
        if produced >= self.tokens:
            return WIDTH * self.tokens if self.visible is None else self.visible
        return max(0, WIDTH * produced - self.held)


def plan_output(
    start: int,
    limit: int,
    stops: Sequence[str],
    *,
    min_tokens: int = 0,
    keep_stop: bool = False,
    garbage: bool = False,
) -> Output:
    """Where an answer of at most `limit` tokens ends: at a stop string, or at the limit."""
    if not stops:
        return Output(start=start, tokens=limit, garbage=garbage)
    text = (_GARBAGE * limit if garbage else span(start, 0, limit)).decode()
    held = max(len(stop) for stop in stops) - 1
    ends = []
    for order, stop in enumerate(stops):
        # A match counts once more than `min_tokens` are out, with the token that completes it.
        at = text.find(stop, max(0, WIDTH * min_tokens - len(stop) + 1))
        if at >= 0:
            ends.append((-(-(at + len(stop)) // WIDTH), order, at, stop))
    if not ends:
        return Output(start=start, tokens=limit, held=held, garbage=garbage)
    tokens, _, at, stop = min(ends)
    return Output(
        start=start,
        tokens=tokens,
        finish_reason="stop",
        stop_reason=stop,
        visible=at + (len(stop) if keep_stop else 0),
        held=held,
        garbage=garbage,
    )
