"""One fleet's queue in this pod: its HAProxy, and the claims that it tells."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from neuronfleet.serving.controller.gateway.wanted import FleetWanted
from neuronfleet.serving.gateway.claims import (
    Act,
    Add,
    Limit,
    Remove,
    ReplicaSeen,
    ReplicaWanted,
    Stance,
    needs_hold,
    reconcile,
)
from neuronfleet.serving.gateway.errors import GatewayError, ReplicaBusyError
from neuronfleet.serving.gateway.hold import Hold
from neuronfleet.serving.gateway.keys import ClientKey
from neuronfleet.serving.gateway.ledger import Ledger
from neuronfleet.serving.gateway.process import HAProxy
from neuronfleet.serving.gateway.queue_config import QueueSettings, queue_files
from neuronfleet.serving.gateway.runtime import GatewayRuntime
from neuronfleet.serving.gateway.stats import FleetStats, ReplicaState, ReplicaStats
from neuronfleet.serving.gateway.waits import HoldTime, wait_s

log = logging.getLogger(__name__)

_LAST_BYTES_S = 30.0
"""A stream that has ended at its replica may still be read by a slow client."""


class FleetQueue:
    """A queue from its start to its last stream."""

    def __init__(self, settings: QueueSettings, directory: Path) -> None:
        self.key = settings.fleet.name
        self.settings = settings
        self.directory = directory
        self.runtime = GatewayRuntime([self.key], settings.check_seconds, directory, canaries=False)
        self.ledger = Ledger()
        self.stats: FleetStats | None = None
        self.ready = False
        """Whether it may be asked: it has slots, or holds who comes."""
        self.leaving_since: float | None = None
        """Monotonic seconds since which no router should point here."""
        self._haproxy = HAProxy(self.runtime, directory)
        self._hold = Hold(directory)
        self._seen: dict[str, ReplicaSeen] = {}
        self._addresses: dict[str, tuple[str, int]] = {}
        self._models = settings.fleet.models
        self._hold_time = HoldTime()
        self._said_wait = 1.0

    @property
    def pid(self) -> int | None:
        """Its HAProxy, while it lives."""
        return self._haproxy.pid

    @property
    def slots(self) -> int:
        """Slots that it may fill."""
        return sum(server.limit for server in self._seen.values())

    @property
    def replicas(self) -> int:
        """Replicas that it knows."""
        return len(self._seen)

    @property
    def settled(self) -> bool:
        """Whether it holds no stream and no slot, so that it may end."""
        return not self.ledger.claims and not any(s.in_flight for s in self._seen.values())

    async def start(self, keys: tuple[ClientKey, ...]) -> None:
        """Start its HAProxy, without a replica."""
        await self._hold.listen()
        await self._haproxy.start(queue_files(self.settings), keys)

    async def stop(self) -> None:
        """Stop at once, and with it every stream that it still has."""
        self.ready = False
        await self._hold.close()
        await self._haproxy.stop()
        self.ledger.claims = {}

    async def finish(self) -> None:
        """End with the last byte that a client still reads; who only waits asks the successor."""
        with contextlib.suppress(TimeoutError, GatewayError):
            async with asyncio.timeout(_LAST_BYTES_S):
                while await self.runtime.has_streams(self.key):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.05)
        await self.stop()

    async def step(
        self,
        fleet: FleetWanted | None,
        replicas: Mapping[str, ReplicaWanted],
        stance: Stance,
        others: Mapping[str, int],
    ) -> None:
        """Look, decide, act, and tell what is claimed then; no `fleet`: it was deleted."""
        await self._look()
        queued = self.stats.queued if self.stats else 0
        acts = reconcile(
            wanted=replicas, seen=self._seen, stance=stance, others=others, queued=queued
        )
        limits = {name: server.limit for name, server in self._seen.items()}
        limits |= {act.replica: act.limit for act in acts if isinstance(act, Add | Limit)}
        held = needs_hold(replicas, limits)
        if held and not self._hold.on:
            await self._hold.take(self.runtime, self.key)
        if acts:
            self.ledger.before(acts)
            for act in acts:
                await self._perform(act)
            await self._look()
        if not held and self._hold.on:
            await self._hold.give(self.runtime, self.key)
        self.ledger.after(self._seen)
        self.ready = True
        if fleet is not None:
            await self._tell(fleet)

    async def _look(self) -> None:
        self.stats = (await self.runtime.stats())[self.key]
        self._hold_time.see(self.stats, monotonic())
        self._seen = {server.name: self._replica(server) for server in self.stats.replicas}

    def _replica(self, server: ReplicaStats) -> ReplicaSeen:
        host, port = self._addresses.get(server.name, ("", 0))
        drains = server.state in (ReplicaState.DRAIN, ReplicaState.MAINT)
        limit = 0 if drains else server.ceiling
        return ReplicaSeen(host=host, port=port, limit=limit, in_flight=server.in_flight)

    async def _perform(self, act: Act) -> None:
        log.debug("%s: %s", self.key, act)
        match act:
            case Add():
                self._addresses[act.replica] = (act.host, act.port)
                await self.runtime.add_replica(self.key, act.replica, act.host, act.port, act.limit)
            case Limit(limit=0):
                await self.runtime.drain_replica(self.key, act.replica)
            case Limit(was=0):
                await self.runtime.undrain_replica(self.key, act.replica, act.limit)
            case Limit():
                await self.runtime.set_ceiling(self.key, act.replica, act.limit)
            case Remove():
                with contextlib.suppress(ReplicaBusyError):  # at the next step
                    await self.runtime.remove_replica(self.key, act.replica, cut_streams=True)

    async def _tell(self, fleet: FleetWanted) -> None:
        if (fleet.model,) != self._models:
            await self.runtime.set_models({fleet.model: self.key})
            self._models = (fleet.model,)
        if self.stats is None:
            return
        wait = wait_s(
            slots=self.slots,
            queued=self.stats.queued,
            held_s=self._hold_time.mean_s,
            boot_s=fleet.boot_s,
        )
        if wait != self._said_wait:
            await self.runtime.set_wait(self.key, wait)
            self._said_wait = wait
