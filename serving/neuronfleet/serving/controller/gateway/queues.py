"""All queues of this pod: begun, stepped, handed over, and ended."""

import asyncio
import logging
import random
import shutil
from collections.abc import Callable, Coroutine, Iterable, Mapping
from time import monotonic

from neuronfleet.serving.controller.gateway.ports import Ports
from neuronfleet.serving.controller.gateway.queue import FleetQueue
from neuronfleet.serving.controller.gateway.settings import AgentSettings
from neuronfleet.serving.controller.gateway.wanted import FleetWanted, Wanted
from neuronfleet.serving.gateway.claims import Peer, ReplicaWanted, Stance, others_claims
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.keys import ClientKey
from neuronfleet.serving.gateway.queue_config import QueueSettings
from neuronfleet.serving.gateway.settings import GatewayFleet

log = logging.getLogger(__name__)

_CALM_S, _MANY = 2.0, 100
"""Between two looks at a queue about which nothing changes; longer beyond so many queues."""
_AT_ONCE = 4
"""HAProxys that start at once."""
_A_ROUND = 8
"""Queues that begin in one round, so that those that run are not left alone for long."""
_CONNECT_S = 2.0


_Given = tuple[FleetWanted | None, Mapping[str, ReplicaWanted], Stance, dict[str, int]]
"""What a step of a queue depends on."""


class Queues:
    """Queues by fleet: one that is asked, and those that leave."""

    def __init__(self, settings: AgentSettings, failed: Callable[[str], None]) -> None:
        self.current: dict[str, FleetQueue] = {}
        self.leaving: list[FleetQueue] = []
        self._settings = settings
        self._failed = failed
        self._endings: set[asyncio.Task[None]] = set()
        self._count = 0
        self._ports = Ports(settings.bind_host, *settings.queue_ports, random.Random())
        self._last: dict[FleetQueue, tuple[_Given, float]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    def all(self) -> list[FleetQueue]:
        """Every queue that has a process."""
        return [*self.current.values(), *self.leaving]

    @property
    def ended(self) -> bool:
        """Whether none is left, not even one that ends."""
        return not self.all() and not self._endings

    @property
    def busy(self) -> bool:
        """Whether slots may change hands here."""
        return bool(self.leaving) or any(q.leaving_since is not None for q in self.all())

    def claims(self) -> dict[str, dict[str, int]]:
        """Slots claimed here, by fleet and replica."""
        found: dict[str, dict[str, int]] = {}
        for queue in self.all():
            claims = found.setdefault(queue.key, {})
            for replica, slots in queue.ledger.claims.items():
                claims[replica] = claims.get(replica, 0) + slots
        return {fleet: claims for fleet, claims in found.items() if claims}

    def mind_deaths(self) -> None:
        """Forget queues whose HAProxy has ended by itself."""
        for queue in self.all():
            if queue.pid is None:
                log.error("the queue of %s has ended by itself", queue.key)
                self._failed("queue")
                self._end(queue, queue.stop())

    async def begin(self, wanted: Mapping[str, FleetWanted], keys: tuple[ClientKey, ...]) -> bool:
        """Start some of what is missing; whether that was all.

        What was started with other settings leaves, and its successor gets its slots.
        """
        for key, queue in list(self.current.items()):
            if key in wanted and queue.settings.fleet.queue_seconds != wanted[key].queue_s:
                self._retire(queue)
        missing = [fleet for key, fleet in wanted.items() if key not in self.current]
        some = missing[:_A_ROUND]
        await asyncio.gather(*(self._begin(fleet, keys) for fleet in some))
        return len(some) == len(missing)

    def retire_unwanted(self, wanted: Mapping[str, FleetWanted]) -> None:
        """Let queues leave whose fleet is gone."""
        for key, queue in list(self.current.items()):
            if key not in wanted:
                self._retire(queue)

    async def step(
        self,
        wanted: Wanted,
        stance: Callable[[FleetQueue], Stance],
        peers: Iterable[Peer],
        *,
        active: bool,
    ) -> None:
        """Step every queue about which something changed, and now and then the others.

        Queues of a pod that waits are begun but not `ready`: they get their first step when it
        is `active`.
        """
        now, peers = monotonic(), tuple(peers)
        calm_s = _CALM_S * max(1.0, len(self.current) / _MANY)
        steps = []
        for queue in self.all():
            if not active and not queue.ready:
                continue
            others = others_claims(peers, queue.key, now, self._settings.silent_s)
            self._add_own(others, queue)
            fleet = wanted.fleets.get(queue.key)
            given = (fleet, wanted.replicas.get(queue.key, {}), stance(queue), others)
            last = self._last.get(queue)
            calm = stance(queue) is Stance.RAISE and not others and last is not None
            if calm and last is not None and last[0] == given and now - last[1] < calm_s:
                continue
            self._last[queue] = (given, now)
            steps.append(self._step(queue, given))
        await asyncio.gather(*steps)

    def end_settled(self, stance: Callable[[FleetQueue], Stance]) -> None:
        """End queues that have left: no stream, no slot, and nobody who would still come."""
        for queue in self.all():
            if stance(queue) is Stance.LEAVE and (queue.settled or not queue.ready):
                self._end(queue, queue.finish())

    async def close(self) -> None:
        """End all at once."""
        await asyncio.gather(*(queue.stop() for queue in self.all()), return_exceptions=True)
        for task in list(self._endings):
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)

    def _add_own(self, others: dict[str, int], queue: FleetQueue) -> None:
        for other in self.all():
            if other is not queue and other.key == queue.key:
                for replica, slots in other.ledger.claims.items():
                    others[replica] = others.get(replica, 0) + slots

    async def _step(self, queue: FleetQueue, given: _Given) -> None:
        try:
            await queue.step(*given)
        except GatewayError as error:
            log.warning("the queue of %s: %s", queue.key, error)
            self._failed("queue command")
            self._last.pop(queue, None)

    async def _begin(self, fleet: FleetWanted, keys: tuple[ClientKey, ...]) -> None:
        self._count += 1
        given = self._settings
        port = self._ports.take()
        if port is None:
            log.error("the queue of %s finds no port in %s", fleet.key, given.queue_ports)
            self._failed("queue")
            return
        settings = QueueSettings(
            fleet=GatewayFleet(name=fleet.key, models=(fleet.model,), queue_seconds=fleet.queue_s),
            bind_host=given.bind_host,
            port=port,
            authenticated=given.keys_file is not None,
            max_connections=given.max_connections,
            idle_seconds=given.idle_s,
            connect_seconds=_CONNECT_S,
        )
        queue = FleetQueue(settings, given.directory / f"q{self._count}")
        async with self._gate:
            try:
                await queue.start(keys)
            except GatewayError as error:
                log.error("the queue of %s does not start: %s", fleet.key, error)
                self._failed("queue")
                await queue.stop()
                return
            except asyncio.CancelledError:
                await queue.stop()
                raise
        self.current[fleet.key] = queue

    def _retire(self, queue: FleetQueue) -> None:
        self.leaving.append(self.current.pop(queue.key))

    def _end(self, queue: FleetQueue, ending: Coroutine[None, None, None]) -> None:
        if self.current.get(queue.key) is queue:
            del self.current[queue.key]
        else:
            self.leaving.remove(queue)
        self._last.pop(queue, None)

        async def end() -> None:
            try:
                await ending
            finally:
                shutil.rmtree(queue.directory, ignore_errors=True)

        task = asyncio.create_task(end())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
