"""A real gateway before fake replicas, all on free loopback ports."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True, kw_only=True)
class FakeReplica:
    """Counts what it has at once, and streams as many events as a request's `events` says."""

    name: str
    port: int
    now: int = 0
    most: int = 0
    order: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: Callable[[], web.Response] | None = None
    healthy: bool = True

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            body = await request.json()
            self.order.append(body.get("tag", ""))
            self.headers.append({k.lower(): v for k, v in request.headers.items()})
            if self.answer is not None:
                return self.answer()
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            for i in range(body.get("events", 1)):
                await response.write(f"data: {self.name} {i}\n\n".encode())
                await asyncio.sleep(body.get("seconds", 0.02))
            await response.write(b"data: [DONE]\n\n")
            return response
        finally:
            self.now -= 1

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    json: Any


@dataclass(slots=True, kw_only=True)
class Rig:
    """The gateway under test, its replicas, and a client."""

    process: GatewayProcess
    settings: GatewaySettings
    directory: Path
    session: aiohttp.ClientSession
    start_replica: Callable[..., Awaitable[FakeReplica]]

    async def add(self, fleet: str, name: str, ceiling: int) -> FakeReplica:
        """Start a replica and give it to the gateway."""
        replica = await self.start_replica(name)
        await self.process.runtime.add_replica(fleet, name, "127.0.0.1", replica.port, ceiling)
        return replica

    async def ask(
        self,
        body: object = None,
        *,
        path: str = "/v1/completions",
        method: str = "POST",
        headers: dict[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        port: int | None = None,
    ) -> Answer:
        url = f"http://127.0.0.1:{port or self.settings.port}{path}"
        given: dict[str, Any] = {"data": data} if data is not None else {}
        if data is None and method == "POST":
            given = {"json": {"model": "m1"} if body is None else body}
        async with self.session.request(method, url, headers=headers, **given) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return Answer(
                status=response.status,
                headers={k.lower(): v for k, v in response.headers.items()},
                text=text,
                json=await response.json() if is_json else None,
            )

    async def canary(self, fleet: str, replica: str, body: object = None) -> Answer:
        return await self.ask(
            body,
            port=self.settings.canary_port,
            headers={"x-neuronfleet-fleet": fleet, "x-neuronfleet-replica": replica},
        )

    async def until(self, met: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
        """Return once `met`, and fail after `seconds`."""
        async with asyncio.timeout(seconds):
            while not await met():  # noqa: ASYNC110 - HAProxy tells no event
                await asyncio.sleep(0.01)

    async def until_queued(self, fleet: str, count: int) -> None:
        async def met() -> bool:
            return (await self.process.runtime.stats())[fleet].queued == count

        await self.until(met)

    async def until_in_flight(self, fleet: str, count: int) -> None:
        async def met() -> bool:
            return (await self.process.runtime.stats())[fleet].in_flight == count

        await self.until(met)


@pytest.fixture
async def start_replica() -> AsyncIterator[Callable[..., Awaitable[FakeReplica]]]:
    """Starts fake replicas by name."""
    runners = []

    async def start(name: str) -> FakeReplica:
        fake = FakeReplica(name=name, port=free_port())
        app = web.Application()
        app.router.add_post("/v1/completions", fake.complete)
        app.router.add_post("/v1/chat/completions", fake.complete)
        app.router.add_get("/health", fake.health)
        # As vLLM does: a client that has gone ends its request.
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", fake.port).start()
        runners.append(runner)
        return fake

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def rig(
    tmp_path: Path, start_replica: Callable[..., Awaitable[FakeReplica]]
) -> AsyncIterator[Callable[..., Awaitable[Rig]]]:
    """Starts a gateway with the given settings; `keys` is the text of its keys' file."""
    started: list[Rig] = []

    async def start(*, keys: str | None = None, **changes: Any) -> Rig:
        keys_file = None
        if keys is not None:
            keys_file = tmp_path / "keys"
            keys_file.write_text(keys)
        fleets = (
            GatewayFleet(name="llama", models=("m1", "meta/llama-3"), queue_seconds=5.0),
            GatewayFleet(name="qwen", models=("m2",), queue_seconds=0.3),
        )
        ports = {name: free_port() for name in ("port", "canary_port", "metrics_port")}
        settings = GatewaySettings(
            **{"fleets": fleets, "keys_file": keys_file, "check_seconds": 0.2, **ports, **changes}
        )
        process = GatewayProcess(settings, tmp_path / "gw")
        await process.start()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=30)
        )
        made = Rig(
            process=process,
            settings=settings,
            directory=tmp_path / "gw",
            session=session,
            start_replica=start_replica,
        )
        started.append(made)
        return made

    yield start
    for made in started:
        await made.session.close()
        # A gateway that has crashed must fail the test that crashed it.
        crashed = made.process.pid is None
        await made.process.stop()
        assert not crashed, (made.directory / "haproxy.log").read_text()
