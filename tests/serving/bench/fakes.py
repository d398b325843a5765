"""A fake server, what it streams, and clients of it."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.replica.replay import Arrival

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
OBJECTIVE = Objective(ttft_ms=2000, tpot_ms=100, percentile=90, attainment=0.95)
DONE = b"data: [DONE]\n\n"


def counts(tokens: int, prompt_tokens: int = 7) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + tokens,
        "completion_tokens": tokens,
    }


def event(
    tokens: int | None, text: str = " word", *, chat: bool = False, spaced: bool = False
) -> bytes:
    """One chunk of a stream, with the count so far, or without where that is None."""
    said: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
    chunk: dict[str, Any] = {"choices": [{"index": 0, **said, "finish_reason": None}]}
    if tokens is not None:
        chunk["usage"] = counts(tokens)
    separators = (", ", ": ") if spaced else (",", ":")
    dumped = json.dumps(chunk, ensure_ascii=False, separators=separators)
    return b"data: " + dumped.encode() + b"\n\n"


def last_usage(tokens: int, prompt_tokens: int = 7) -> bytes:
    chunk = {"choices": [], "usage": counts(tokens, prompt_tokens)}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def answer(tokens: Iterable[int]) -> list[bytes]:
    """A whole stream: a chunk for each count so far, then the usage and the end mark."""
    so_far = list(tokens)
    return [*map(event, so_far), last_usage(so_far[-1]), DONE]


async def stream(request: web.Request, chunks: Iterable[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


@dataclass(slots=True)
class Server:
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    handler: Handler | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        assert self.handler is not None
        return await self.handler(request)

    def streams(self, chunks: Sequence[bytes]) -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            return await stream(request, chunks)

        self.handler = handler

    def client(self, arrivals: Iterable[Arrival], **options: Any) -> LoadClient:
        given: dict[str, Any] = {"objective": OBJECTIVE} | options
        return LoadClient(self.url, "llama", arrivals, **given)


def at(*seconds: float, prompt_tokens: int = 8, output_tokens: int = 5) -> list[Arrival]:
    return [
        Arrival(at_ms=one * 1000, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
        for one in seconds
    ]
