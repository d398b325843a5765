"""Canaries: a replica is ready, and stays so, by answering a known question correctly."""

from collections.abc import Mapping
from enum import StrEnum

import aiohttp

from neuronfleet.serving.local.engines import Probe


class Health(StrEnum):
    """What a canary found."""

    CORRECT = "correct"
    EMPTY = "empty answer"
    """200 without a token: a dead engine's way to answer."""
    WRONG = "wrong answer"
    BUSY = "no slot in time"
    """The replica was full: this says nothing of its health."""
    SILENT = "no answer"


BROKEN = (Health.EMPTY, Health.WRONG, Health.SILENT)
"""Findings that condemn a replica."""


async def ask(
    session: aiohttp.ClientSession,
    base: str,
    probe: Probe,
    *,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> Health:
    """Ask a canary question at `base`, real seconds allowed for all of it."""
    try:
        async with session.post(
            f"{base}/v1/{probe.path}",
            json=dict(probe.body),
            headers=dict(headers or {}),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as answer:
            if answer.status == 503:
                return Health.BUSY
            if answer.status != 200:
                return Health.WRONG
            document = await answer.json()
    except TimeoutError:
        return Health.SILENT
    except (aiohttp.ClientError, OSError):
        return Health.SILENT
    except ValueError:
        # No JSON: a stream without an event is an empty answer too.
        return Health.EMPTY
    return judge(document, probe.expected)


def judge(document: object, expected: str) -> Health:
    """Compare an answer's text with what a working engine says."""
    try:
        text = document["choices"][0]["text"]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return Health.EMPTY
    if not text:
        return Health.EMPTY
    return Health.CORRECT if text == expected else Health.WRONG
