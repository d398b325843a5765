"""Two gateway pods on two loopback addresses, before replicas that count, and a cluster by hand."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from neuronfleet.serving.controller.gateway.agent import Agent
from neuronfleet.serving.controller.gateway.facts import (
    ClusterFacts,
    FleetFact,
    PodFact,
    ReplicaFact,
)
from neuronfleet.serving.controller.gateway.settings import AgentSettings
from tests.serving.controller.gateway.fake_api import free_port

HOSTS = {"gw-a": "127.0.0.1", "gw-b": "127.0.0.2"}


@dataclass(slots=True, kw_only=True)
class Replica:
    """Streams events as the request says, and counts what it has at once."""

    pod: str
    fleet: str
    port: int
    ceiling: int
    now: int = 0
    most: int = 0
    served: int = 0
    ready: bool = True
    terminating: bool = False
    runner: web.AppRunner | None = None

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            body = await request.json()
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            for i in range(body.get("events", 1)):
                await asyncio.sleep(body.get("seconds", 0.02))
                await response.write(f"data: {self.pod} {i}\n\n".encode())
            self.served += 1
            # The slot is free before the last bytes have left, as with vLLM.
            self.now -= 1
            await response.write(b"data: [DONE]\n\n")
            self.now += 1
            return response
        finally:
            self.now -= 1

    async def health(self, _: web.Request) -> web.Response:
        return web.Response()

    def fact(self) -> ReplicaFact:
        return ReplicaFact(
            fleet=self.fleet,
            pod=self.pod,
            host="127.0.0.1",
            port=self.port,
            ceiling=self.ceiling,
            ready=self.ready,
            terminating=self.terminating,
        )


class FakeLease:
    """A Lease that a test gives and takes."""

    def __init__(self, cluster: "Cluster", pod: str) -> None:
        self.cluster, self.pod = cluster, pod
        self.reachable = True
        self.transitions = 0

    @property
    def held(self) -> bool:
        return self.cluster.holder == self.pod and self.cluster.api_up

    async def release(self) -> None:
        if self.cluster.holder == self.pod:
            others = [pod for pod in self.cluster.agents if pod != self.pod]
            self.cluster.give_lease(others[0] if others else None)


class FakeFeed:
    """A view on the test's cluster."""

    def __init__(self, cluster: "Cluster") -> None:
        self.changed = asyncio.Event()
        self.synced = True
        self._cluster = cluster

    def facts(self) -> ClusterFacts:
        return self._cluster.facts()


@dataclass(slots=True)
class Cluster:
    """Fleets, replicas, gateway pods and the Lease."""

    directory: Path
    settings: dict[str, Any]
    session: aiohttp.ClientSession
    fleets: dict[str, FleetFact] = field(default_factory=dict)
    replicas: dict[str, Replica] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    feeds: dict[str, FakeFeed] = field(default_factory=dict)
    stops: dict[str, asyncio.Event] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    leases: dict[str, FakeLease] = field(default_factory=dict)
    gateways: dict[str, PodFact] = field(default_factory=dict)
    holder: str | None = None
    api_up: bool = True

    def facts(self) -> ClusterFacts:
        return ClusterFacts(
            fleets=tuple(self.fleets.values()),
            replicas=tuple(replica.fact() for replica in self.replicas.values()),
            gateways=tuple(self.gateways.values()),
        )

    def tell(self) -> None:
        for feed in self.feeds.values():
            feed.changed.set()

    def give_lease(self, pod: str | None) -> None:
        self.holder = pod
        self.tell()

    def add_fleet(self, key: str, model: str, queue_s: float = 20.0) -> None:
        created = f"2026-01-01T00:00:{len(self.fleets):02}Z"
        self.fleets[key] = FleetFact(key=key, model=model, queue_s=queue_s, created=created)
        self.tell()

    def change_fleet(self, key: str, **changes: Any) -> None:
        self.fleets[key] = replace(self.fleets[key], **changes)
        self.tell()

    async def add_replica(self, fleet: str, pod: str, ceiling: int) -> Replica:
        made = Replica(pod=pod, fleet=fleet, port=free_port(), ceiling=ceiling)
        app = web.Application()
        app.router.add_post("/v1/completions", made.complete)
        app.router.add_get("/health", made.health)
        made.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await made.runner.setup()
        await web.TCPSite(made.runner, "127.0.0.1", made.port).start()
        self.replicas[pod] = made
        self.tell()
        return made

    async def start(self, pod: str) -> Agent:
        directory = self.directory / pod[-1]
        settings = AgentSettings(
            pod=pod,
            pod_ip=HOSTS[pod],
            bind_host=HOSTS[pod],
            namespace="gw",
            service="gw",
            directory=directory,
            **self.settings,
        )
        lease, feed, stop = FakeLease(self, pod), FakeFeed(self), asyncio.Event()
        agent = Agent(settings, feed, lease)
        self.agents[pod], self.feeds[pod], self.stops[pod] = agent, feed, stop
        self.leases[pod] = lease
        self.gateways[pod] = PodFact(pod=pod, host=HOSTS[pod])
        self.tasks[pod] = asyncio.create_task(agent.run(stop))
        self.tell()
        return agent

    async def end(self, pod: str) -> None:
        """As SIGTERM does, until the process has ended."""
        self.stops[pod].set()
        await self.tasks[pod]
        self.agents.pop(pod)
        self.gateways.pop(pod)
        self.tell()

    async def ask(
        self, pod: str, model: str, *, headers: dict[str, str] | None = None, **body: Any
    ) -> tuple[int, str]:
        """Status and text of a completion asked at one pod; a broken stream raises."""
        url = f"http://{HOSTS[pod]}:{self.settings['port']}/v1/completions"
        async with self.session.post(
            url, json={"model": model} | body, headers=headers
        ) as response:
            return response.status, await response.text()

    async def get(self, pod: str, path: str, port: int | None = None) -> tuple[int, str]:
        url = f"http://{HOSTS[pod]}:{port or self.settings['agent_port']}{path}"
        async with self.session.get(url) as response:
            return response.status, await response.text()

    async def until(self, met: Callable[[], bool | Awaitable[bool]], seconds: float = 8.0) -> None:
        """Return once `met`, and fail after `seconds`."""
        async with asyncio.timeout(seconds):
            while True:
                found = met()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.01)

    async def until_serves(self, pod: str, model: str) -> None:
        async def serves() -> bool:
            with suppress(aiohttp.ClientError):
                return (await self.ask(pod, model))[0] == 200
            return False

        await self.until(serves)

    async def until_unknown(self, model: str) -> None:
        async def unknown() -> bool:
            return [(await self.ask(pod, model))[0] for pod in self.agents] == [404, 404]

        await self.until(unknown)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose sockets' paths fit."""
    with tempfile.TemporaryDirectory(prefix="gw") as name:
        yield Path(name)


@pytest.fixture
async def cluster(short_path: Path) -> AsyncIterator[Cluster]:
    settings = {
        "port": free_port(),
        "agent_port": free_port(),
        "queue_ports": (21000, 29999),
        "most_fleets": 8,
        "leave_s": 0.3,
        "grace_s": 0.5,
        "drain_s": 20.0,
        "silent_s": 3.0,
        "idle_s": 60.0,
    }
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=40),
    )
    made = Cluster(directory=short_path, settings=settings, session=session)
    yield made
    await session.close()
    for task in made.tasks.values():
        task.cancel()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)
    for replica in made.replicas.values():
        if replica.runner is not None:
            await replica.runner.cleanup()
