"""Prompts of an exact length, no two alike."""

from collections.abc import Callable
from random import Random

from neuronfleet.serving.emulator.tokens import BOS, CHAT_MESSAGE_TOKENS, CHAT_REPLY_TOKENS

PromptMaker = Callable[[int], str]
"""Makes a text that the server counts as so many tokens."""

COMPLETION_EXTRA = BOS
"""Tokens that the server puts around a completion's prompt."""
CHAT_EXTRA = BOS + CHAT_MESSAGE_TOKENS + CHAT_REPLY_TOKENS
"""Those around a chat's one message: left out, they push a prompt into the next bucket."""

_COMMON = (
    "able about above across after again air all along also always among and animal answer any "
    "area around ask away back base became because become before began begin behind being best "
    "better between big bird black blue boat body book both bottom boy bring brought build built "
    "busy call came can car care carry center certain change check city class clear close cold "
    "color come common complete contain correct could country course cover cross cry cut dark day "
    "decide deep did differ direct distance do dog door down draw drive dry during each early "
    "earth ease east eat end enough even ever every example eye face fact fall family far farm "
    "fast father feel feet few field figure final find fine fire first fish five fly follow food"
)
_WORDS = _COMMON.split()


def word_prompts(seed: int, extra: int = COMPLETION_EXTRA) -> PromptMaker:
    """Random words for a tokenizer to which a word is a token; `extra` is what the server adds.

    No two prompts begin alike, so that no prefix cache shortens them. What has room for no word
    is a blank, as an empty prompt is refused.
    """
    rng = Random(seed)

    def make(tokens: int) -> str:
        return " ".join(rng.choices(_WORDS, k=max(0, tokens - extra))) or " "

    return make
