"""The OpenAI API of one replica: routes, answers and errors."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from random import Random

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.exposition import choose_encoder

from neuronfleet.serving.emulator.boot import Phase
from neuronfleet.serving.emulator.core import Core
from neuronfleet.serving.emulator.engine import Taker
from neuronfleet.serving.emulator.errors import ApiError
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.replies import (
    DONE,
    VERSION,
    Head,
    closing,
    dump,
    frames,
    model_list,
    whole,
)
from neuronfleet.serving.emulator.requests import Ask, parse, read_body
from neuronfleet.serving.emulator.sampling import Kind
from neuronfleet.serving.emulator.streams import StreamChoice, StreamReply, WholeReply
from neuronfleet.serving.emulator.tokens import Output
from neuronfleet.serving.replica.machine import Sequence

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
_NOTHING = Output(start=0, tokens=0, finish_reason="stop")
"""What a dead engine generates."""


def json_response(value: object, status: int = 200) -> web.Response:
    """Compact JSON with vLLM's content type."""
    return web.Response(
        body=dump(value).encode(), status=status, headers={"Content-Type": "application/json"}
    )


class Service:
    """Handlers of the API port."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ids = Random(core.settings.seed)
        self._created = int(time.time())

    def add_routes(self, app: web.Application) -> None:
        """Serve all of it under `app`."""
        app.middlewares.append(self._guard)
        app.router.add_get("/v1/models", self._models, allow_head=False)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_post("/ping", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/metrics", self._metrics_as_asked)
        app.router.add_route("*", "/metrics/", self._metrics_as_asked)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        # The emulator's own endpoints answer through a hang: that is how it is healed.
        if not request.path.startswith("/emulator/"):
            await self._core.answering.wait()
        try:
            return await handler(request)
        except ApiError as error:
            self._core.totals.refused += 1
            return json_response(error.body(), error.status)
        except web.HTTPException as error:
            answer = json_response({"detail": error.reason}, error.status)
            if "Allow" in error.headers:
                answer.headers["Allow"] = error.headers["Allow"]
            return answer

    async def _models(self, request: web.Request) -> web.Response:
        return json_response(model_list(self._core.settings, self._created))

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._core.phase is Phase.READY else 503)

    async def _version(self, request: web.Request) -> web.Response:
        return json_response({"version": VERSION})

    async def _metrics(self, request: web.Request) -> web.Response:
        """Text with the names as they are, whatever the scraper accepts: so answers vLLM's own."""
        body = generate_latest(self._core.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _metrics_as_asked(self, request: web.Request) -> web.Response:
        """What vLLM mounts beside it: `vllm_x` for who asks for OpenMetrics without UTF-8."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = encode(self._core.registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        with self._core.request():
            return await self._generate(Kind.COMPLETION, request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        with self._core.request():
            return await self._generate(Kind.CHAT, request)

    async def _generate(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        core = self._core
        body = read_body(await request.read(), request.content_type)
        ask = parse(kind, body, core.settings, garbage=Fault.WRONG_TEXT in core.faults)
        if core.phase is not Phase.READY:
            raise ApiError(503, "ServiceUnavailableError", "The server is shutting down.")
        head = Head(id=self._id(kind, request), created=int(time.time()))
        if Fault.DEAD_ENGINE in core.faults:
            return await self._dead(ask, head, request)
        if ask.stream:
            return await self._stream(ask, head, request)
        reply = WholeReply(ask.outputs)
        await self._run(ask, [reply.taker(output) for output in ask.outputs], reply.done)
        return json_response(whole(ask, head, ask.outputs))

    def _id(self, kind: Kind, request: web.Request) -> str:
        given = request.headers.get("X-Request-Id")
        return f"{kind.value}-{given or f'{self._ids.getrandbits(64):016x}'}"

    async def _stream(self, ask: Ask, head: Head, request: web.Request) -> web.StreamResponse:
        response, transport = await _open(request)
        choices = [frames(ask, head, index) for index in range(len(ask.outputs))]
        openings = b"".join(one.opening for one in choices)
        reply = StreamReply(transport, len(choices), closing(ask, head), openings)
        interval = self._core.settings.stream_interval
        takers = [
            StreamChoice(reply, one, output, interval)
            for one, output in zip(choices, ask.outputs, strict=True)
        ]
        await self._run(ask, takers, reply.done)
        await response.write_eof()
        return response

    async def _dead(self, ask: Ask, head: Head, request: web.Request) -> web.StreamResponse:
        """As seen of a dead engine under a live server: 200, and nothing in it."""
        if not ask.stream:
            return json_response(whole(ask, head, [_NOTHING] * len(ask.outputs)))
        response, _ = await _open(request)
        await response.write(DONE)
        await response.write_eof()
        return response

    async def _run(self, ask: Ask, takers: Iterable[Taker], done: asyncio.Future[None]) -> None:
        """Have the engine run all sequences of a request, or none if its client leaves."""
        engine, core = self._core.engine, self._core
        slots: list[Sequence] = []
        try:
            for index, (output, taker) in enumerate(zip(ask.outputs, takers, strict=True)):
                slots.append(engine.submit(ask.prompt_of(index).tokens, output.tokens, taker))
            await done
        except asyncio.CancelledError:
            for slot in slots:
                engine.cancel(slot)
            core.abort()
            raise
        core.totals.answered += 1
        for slot, output in zip(slots, ask.outputs, strict=True):
            core.vllm.finished(slot, output.finish_reason, ask.max_tokens)
        core.vllm.asked(ask.n, max(output.tokens for output in ask.outputs))


async def _open(request: web.Request) -> tuple[web.StreamResponse, asyncio.Transport]:
    """Send the headers of an event stream at once, as vLLM does before the first token."""
    response = web.StreamResponse(headers=_EVENTS)
    response.enable_chunked_encoding()
    await response.prepare(request)
    transport = request.transport
    if transport is None or transport.is_closing():
        raise asyncio.CancelledError  # the client left before its answer began
    return response, transport
