"""Streams through the in-cluster gateway, each watched to its last chunk."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of every request."""

    whole: int = 0
    """Streams that ended with all the tokens that were asked for."""
    refused: Counter[int] = field(default_factory=Counter)
    """Answers that were no stream, by status."""
    broken: list[str] = field(default_factory=list)
    """Streams and connections that were cut, and how."""
    last_whole_s: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing was lost."""
        return not self.broken and not self.refused


class Streams:
    """A closed loop of clients against one model; each keeps its connection as clients do."""

    def __init__(self, url: str, model: str, *, workers: int, tokens: int = 60) -> None:
        self.tally = Tally()
        self._url, self._model, self._tokens = url, model, tokens
        self._wanted = workers
        self._workers: list[asyncio.Task[None]] = []
        self._leaving = asyncio.Event()

    async def __aenter__(self) -> "Streams":
        self._session = aiohttp.ClientSession(
            timeout=_TIMEOUT, connector=aiohttp.TCPConnector(limit=0)
        )
        self.set_workers(self._wanted)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.finish()

    def set_workers(self, count: int) -> None:
        """Have more clients; to have fewer, `finish` and begin anew."""
        for _ in range(count - len(self._workers)):
            self._workers.append(asyncio.create_task(self._work(self._leaving)))

    async def fewer(self, count: int) -> None:
        """Let all clients end their streams, then go on with `count`."""
        self._leaving.set()
        await asyncio.gather(*self._workers)
        self._leaving, self._workers = asyncio.Event(), []
        self.set_workers(count)

    async def finish(self) -> Tally:
        """Let every stream end."""
        self._leaving.set()
        await asyncio.gather(*self._workers)
        await self._session.close()
        return self.tally

    async def _work(self, leaving: asyncio.Event) -> None:
        number = 0
        while not leaving.is_set():
            number += 1
            await self._one(f"question {id(leaving)} {number}")

    async def _one(self, prompt: str) -> None:
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": self._tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
        }
        tokens, done = 0, False
        try:
            async with self._session.post(f"{self._url}/v1/completions", json=body) as answer:
                if answer.status != 200:
                    self.tally.refused[answer.status] += 1
                    await answer.read()
                    await asyncio.sleep(0.2)
                    return
                async for line in answer.content:
                    text = line.decode().strip()
                    if text == "data: [DONE]":
                        done = True
                    elif text.startswith("data: "):
                        choices = json.loads(text[6:])["choices"]
                        tokens += bool(choices and choices[0]["text"])
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.tally.broken.append(f"{tokens} tokens, then {error!r}")
            await asyncio.sleep(0.2)
            return
        if done and tokens:
            self.tally.whole += 1
            self.tally.last_whole_s = time.monotonic()
        else:
            self.tally.broken.append(f"{tokens} tokens, then the end without [DONE]")
