"""The agent of one gateway pod: one loop that looks, decides and acts, until it leaves."""

import asyncio
import contextlib
import logging
from time import monotonic

import aiohttp

from neuronfleet.serving.controller.gateway import http, roles
from neuronfleet.serving.controller.gateway.exporter import Exporter, haproxy_metrics
from neuronfleet.serving.controller.gateway.facts import ClusterFacts
from neuronfleet.serving.controller.gateway.feed import ClusterFeed, Leadership
from neuronfleet.serving.controller.gateway.peers import Peers
from neuronfleet.serving.controller.gateway.queue import FleetQueue
from neuronfleet.serving.controller.gateway.queues import Queues
from neuronfleet.serving.controller.gateway.secrets import LOOK_S, Secrets
from neuronfleet.serving.controller.gateway.settings import AgentSettings, router_settings
from neuronfleet.serving.controller.gateway.wanted import Wanted, wanted
from neuronfleet.serving.gateway.claims import Answer, Stance, may_raise
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.router import Address, Router

log = logging.getLogger(__name__)

_QUICK_S, _CALM_S = 0.1, 0.25
"""Between two rounds: while slots change hands, and else."""
_HUNG_S = 30.0


class Agent:
    """One gateway pod, from its start until its last stream."""

    def __init__(self, settings: AgentSettings, feed: ClusterFeed, leadership: Leadership) -> None:
        self.exporter = Exporter()
        self.queues = Queues(settings, self._failed)
        self.active_since: float | None = None
        self._settings, self._feed, self._leadership = settings, feed, leadership
        self._secrets = Secrets(settings)
        self._keys, self._certificate = self._secrets.keys, self._secrets.certificate
        self._router = Router(router_settings(settings), settings.directory / "r")
        self._peers: Peers | None = None
        self._facts, self._wanted = ClusterFacts(), Wanted(fleets={})
        self._listed: dict[str, int] = {}
        self._stopping = self._finishing = self._closing = False
        self._may_raise = False
        self._came_round = self._looked = monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`, and then until the last stream or the end of the drain."""
        # Before any queue: an agent that refuses connections is taken for dead.
        runner = await http.serve(self, self._settings.bind_host, self._settings.agent_port)
        stopping = asyncio.create_task(stop.wait())
        loop = None
        async with aiohttp.ClientSession() as session:
            self._peers = Peers(session, self._settings.agent_port, self._feed.changed.set)
            try:
                await self._router.start(self._keys, self._certificate)
                loop = asyncio.create_task(self._loop())
                await asyncio.wait({loop, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if loop.done():
                    loop.result()
                await self._leave()
            finally:
                for task in filter(None, (loop, stopping)):
                    task.cancel()
                    await asyncio.wait({task})
                await self.queues.close()
                await self._router.stop()
                await self._peers.close()
                await runner.cleanup()

    def answer(self) -> Answer:
        """Claims of this pod."""
        return Answer(
            active=self.active_since is not None,
            claims=self.queues.claims(),
            queues=self._listed,
        )

    def queued(self) -> dict[str, int]:
        """Requests that wait here, by fleet."""
        found: dict[str, int] = {}
        for queue in self.queues.all():
            if queue.stats is not None:
                found[queue.key] = found.get(queue.key, 0) + queue.stats.queued
        return found

    def models(self) -> list[str]:
        """Names that clients may ask for."""
        return sorted(fleet.model for fleet in self._wanted.fleets.values())

    def problem(self) -> str | None:
        """Why the pod should be started anew; None is well."""
        silent = monotonic() - self._came_round
        return f"no round for {silent:.0f} s" if silent > _HUNG_S else None

    def unready(self) -> str | None:
        """Why clients should ask another pod; None is ready."""
        if self._stopping:
            return "leaving"
        if not self._feed.synced:
            return "the cluster's objects are not read yet"
        return None if self._router.pid is not None else "the router does not run"

    async def metrics(self) -> str:
        """Prometheus text of this agent and of its HAProxys."""
        ready = [queue for queue in self.queues.current.values() if queue.ready]
        self.exporter.tell(
            active=self.active_since is not None,
            lease_transitions=self._leadership.transitions,
            replicas={queue.key: queue.replicas for queue in ready},
            claims=self.queues.claims(),
            refused=self._wanted.refused,
        )
        current = [(queue.key, queue.directory, True) for queue in ready]
        leaving = [(queue.key, queue.directory, False) for queue in self.queues.leaving]
        text = await haproxy_metrics(self._settings.directory / "r", current + leaving)
        return self.exporter.text() + text

    async def _loop(self) -> None:
        while True:
            self._feed.changed.clear()
            try:
                await self._round()
            except GatewayError as error:
                log.warning("a round failed: %s", error)
                self._failed("round")
            self._came_round = monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_QUICK_S if self._busy else _CALM_S):
                    await self._feed.changed.wait()

    async def _round(self) -> None:
        peers = self._peers
        if peers is None:
            return
        self._learn(self._feed.facts())
        peers.follow(p for p in self._facts.gateways if p.pod != self._settings.pod)
        await self._look_at_files()
        await self._mind_deaths()
        self._take_role()
        self.queues.retire_unwanted(self._wanted.fleets)
        # The pod that waits has its queues begun too, without a replica: a takeover is quick then.
        wanted_here = self._feed.synced and not self._stopping
        if wanted_here and not await self.queues.begin(self._wanted.fleets, self._keys):
            self._feed.changed.set()
        self._mark_leaving()
        await self.queues.step(
            self._wanted, self._stance, peers.all(), active=self.active_since is not None
        )
        await self._route()
        self.queues.end_settled(self._stance)
        peers.quick = self._busy

    def _learn(self, facts: ClusterFacts) -> None:
        if facts is self._facts:
            return
        before, self._facts = self._wanted.refused, facts
        self._wanted = wanted(facts, self._settings.most_fleets)
        for key, reason in self._wanted.refused.items():
            if before.get(key) != reason:
                log.warning("fleet %s is not served: %s", key, reason)

    def _take_role(self) -> None:
        now, peers = monotonic(), self._peers.all() if self._peers else ()
        active = self._feed.synced and not self._stopping
        active = active and roles.is_active(
            held=self._leadership.held,
            reachable=self._leadership.reachable,
            was_active=self.active_since is not None,
            peers=peers,
            now=now,
        )
        if active and self.active_since is None:
            log.info("takes the queues")
            self.exporter.handovers.inc()
            self.active_since = now
        elif not active and self.active_since is not None:
            log.info("leaves the queues")
            self.active_since = None
        self._may_raise = self.active_since is not None and may_raise(
            peers, self.active_since, now, self._settings.silent_s
        )

    def _mark_leaving(self) -> None:
        now, peers = monotonic(), self._peers.all() if self._peers else ()
        passive = self.active_since is None
        cut_off = passive and roles.is_cut_off(
            reachable=self._leadership.reachable,
            peers=peers,
            now=now,
            silent_s=self._settings.silent_s,
        )
        for queue in self.queues.all():
            leaves = (
                queue in self.queues.leaving
                or self._closing
                or (queue.ready and cut_off)
                or (queue.ready and passive and roles.taker(peers, queue.key) is not None)
            )
            if leaves and queue.leaving_since is None:
                queue.leaving_since = now
            elif not leaves:
                queue.leaving_since = None

    def _stance(self, queue: FleetQueue) -> Stance:
        return roles.stance(
            active=self.active_since is not None,
            may_raise=self._may_raise,
            leaving_since=queue.leaving_since,
            now=monotonic(),
            grace_s=self._settings.grace_s,
        )

    async def _route(self) -> None:
        """Point the router, and then tell the other pod which queues are here."""
        peers = self._peers.all() if self._peers else ()
        targets: dict[str, Address | None] = {}
        for key in self._wanted.fleets:
            queue = self.queues.current.get(key)
            own = None
            if queue is not None and queue.ready:
                own = (self._settings.pod_ip, queue.settings.port)
            targets[key] = roles.target(
                key, own=own, active=self.active_since is not None, peers=peers
            )
        models = {fleet.model: key for key, fleet in self._wanted.fleets.items()}
        if not self._finishing:
            await self._router.follow(models, targets)
        self._listed = {
            key: queue.settings.port
            for key, queue in self.queues.current.items()
            if queue.ready and not self._closing
        }

    async def _look_at_files(self) -> None:
        if monotonic() - self._looked < LOOK_S:
            return
        self._looked = monotonic()
        if not self._secrets.look():
            self._failed("file")
        if self._secrets.keys != self._keys:
            controls = [self._router.control, *(queue.runtime for queue in self.queues.all())]
            for control in controls:
                changes = await control.set_keys(self._secrets.keys)
            self._keys = self._secrets.keys
            log.info("keys: %s", changes)
        if self._secrets.certificate not in (None, self._certificate):
            await self._router.set_certificate(self._secrets.certificate or "")
            self._certificate = self._secrets.certificate
            log.info("the certificate was renewed")

    async def _mind_deaths(self) -> None:
        self.queues.mind_deaths()
        if self._router.pid is None and not self._stopping:
            log.error("the router has ended by itself")
            self._failed("router")
            await self._router.start(self._keys, self._certificate)

    async def _leave(self) -> None:
        """Hand over, and stay until the last stream has ended or the drain's time is over."""
        ends_at = monotonic() + self._settings.drain_s
        self._stopping = True
        await self._router.leave()
        await self._leadership.release()
        await asyncio.sleep(self._settings.leave_s)
        self._finishing = True
        self._router.finish()
        while self._router.pid is not None and monotonic() < ends_at:  # noqa: ASYNC110
            await asyncio.sleep(_QUICK_S)
        self._closing = True
        while not self.queues.ended and monotonic() < ends_at:  # noqa: ASYNC110
            await asyncio.sleep(_QUICK_S)

    @property
    def _busy(self) -> bool:
        peers = self._peers.all() if self._peers else ()
        if self.active_since is None:
            return any(queue.ready for queue in self.queues.all())
        others = any(peer.answer.claims for peer in peers)
        return others or self.queues.busy or not self._may_raise

    def _failed(self, what: str) -> None:
        self.exporter.failures.labels(what).inc()
