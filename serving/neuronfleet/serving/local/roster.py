"""The replicas of one fleet: started, watched, drained and replaced."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.runtime import GatewayRuntime
from neuronfleet.serving.local import canary
from neuronfleet.serving.local.children import Child
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.replica import Replica
from neuronfleet.serving.planner.boots import BootTimes
from neuronfleet.serving.planner.observation import Observation, Phase

_POLL_S = 0.1
"""Real seconds between looks at a booting or draining replica."""
_PROBE_TIMEOUT_S = 10.0
"""Real seconds that the first canary may take: it is the first request after boot."""
_LONGEST_PAUSE_S = 60.0
"""Real seconds that boots wait at most after failed ones."""
_SLOWEST_BOOT = 4.0
"""A boot that takes this many times its P90 has failed."""

Note = Callable[[str, str], None]
"""Called with an event's text and its reason."""


class Roster:
    """All replicas of a fleet, by name."""

    def __init__(
        self,
        fleet: ServingFleet,
        engine: Engine,
        *,
        clock: FleetClock,
        session: aiohttp.ClientSession,
        gateway: GatewayRuntime,
        directory: Path,
        note: Note,
    ) -> None:
        self.fleet = fleet
        self.replicas: dict[str, Replica] = {}
        self.gone: dict[str, float] = {}
        self.boots = {v.name: BootTimes(engine.boot_s(v)) for v in fleet.variants}
        self.changed = asyncio.Event()
        """Set when a replica enters or leaves; whoever scrapes them clears it."""
        self._engine, self._clock, self._session = engine, clock, session
        self._gateway, self._directory, self._note = gateway, directory, note
        self._numbers = itertools.count(1)
        self.failures = 0
        """Replicas that failed since the start."""
        self._failed_boots = 0
        self._wait_until_s = 0.0

    def start(self, variant: Variant) -> Replica:
        """Begin to boot one more replica."""
        name = f"{self.fleet.name}-{variant.name}-{next(self._numbers)}"
        now = self._clock.now()
        replica = Replica(
            name=name,
            fleet=self.fleet,
            variant=variant,
            ceiling=self._engine.ceiling(self.fleet, variant),
            born_s=now,
            since_s=now,
        )
        self.replicas[name] = replica
        replica.tasks.append(asyncio.create_task(self._live(replica)))
        return replica

    def may_start(self) -> bool:
        """Whether boots may begin: after failed ones they wait, twice as long each time."""
        return self._clock.now() >= self._wait_until_s

    async def cancel(self, name: str) -> None:
        """Stop a replica if it is still booting; one that serves by now is drained."""
        replica = self.replicas.get(name)
        if replica is None:
            return
        if replica.phase is Phase.BOOTING:
            replica.enter(Phase.FAILED, self._clock.now(), "cancelled")
            await self._end(replica)
        else:
            self.drain(name)

    def drain(self, name: str) -> None:
        """Let a serving replica finish its streams and leave."""
        replica = self.replicas.get(name)
        if replica is not None and replica.phase is Phase.SERVING:
            replica.enter(Phase.DRAINING, self._clock.now(), "finishing its streams")
            replica.tasks.append(asyncio.create_task(self._drain(replica)))

    async def condemn(self, name: str, why: str) -> None:
        """Take a broken replica out at once; the loop replaces it."""
        replica = self.replicas.get(name)
        if replica is None or replica.phase is Phase.FAILED:
            return
        if replica.phase is Phase.BOOTING:
            self._failed_boots += 1
            pause = min(_LONGEST_PAUSE_S, 2.0**self._failed_boots - 1)
            self._wait_until_s = self._clock.now() + pause * self._clock.scale
        self.failures += 1
        replica.enter(Phase.FAILED, self._clock.now(), why)
        self._note(f"{name} failed", why)
        await self._end(replica)

    async def stop(self) -> None:
        """End every replica at once."""
        await asyncio.gather(*(self._end(one) for one in list(self.replicas.values())))

    def observe(self) -> Observation:
        """The replicas as they are now, without samples."""
        seen = tuple(replica.seen() for replica in self.replicas.values())
        return Observation(replicas=seen, samples=(), watched_since_s=0.0, gone=dict(self.gone))

    def boot_left_s(self) -> float | None:
        """Fleet seconds until the next booting replica should serve; None if none boots."""
        now = self._clock.now()
        left = [
            max(1.0, self.boots[one.variant.name].p90_s - (now - one.born_s))
            for one in self.replicas.values()
            if one.phase is Phase.BOOTING
        ]
        return min(left, default=None)

    async def _live(self, replica: Replica) -> None:
        """Boot a replica, give it to the gateway, and notice when its process ends."""
        try:
            await self._boot(replica)
        except (aiohttp.ClientError, OSError, RuntimeError) as why:
            await self._fail_from_task(replica, str(why))
            return
        if replica.child is not None:
            code = await replica.child.process.wait()
            if replica.phase in (Phase.SERVING, Phase.BOOTING):
                await self._fail_from_task(replica, f"its process ended with status {code}")

    async def _fail_from_task(self, replica: Replica, why: str) -> None:
        replica.tasks = [one for one in replica.tasks if one is not asyncio.current_task()]
        await self.condemn(replica.name, why)

    async def _boot(self, replica: Replica) -> None:
        launch = self._engine.launch(self.fleet, replica.variant, replica.name, self._directory)
        replica.port, replica.state_port = launch.port, launch.state_port
        replica.child = await Child.start(
            launch.arguments, log=self._directory / f"{replica.name}.log", env=launch.env
        )
        await self._await_listening(replica, replica.child)
        replica.detail = "canary"
        found = await canary.ask(
            self._session,
            replica.url,
            self._engine.probe(self.fleet, 0),
            timeout_s=_PROBE_TIMEOUT_S,
        )
        if found is not canary.Health.CORRECT:
            raise RuntimeError(f"its first canary: {found}")
        # Before the call: whoever ends the replica meanwhile must take it out again.
        replica.in_gateway = True
        await self._gateway.add_replica(
            self.fleet.name, replica.name, "127.0.0.1", replica.port, replica.ceiling
        )
        now = self._clock.now()
        self._failed_boots = 0
        self.boots[replica.variant.name].add(now - replica.born_s)
        replica.enter(Phase.SERVING, now)
        self._note(f"{replica.name} serves", f"booted in {now - replica.born_s:.0f} s")
        self.changed.set()

    async def _await_listening(self, replica: Replica, child: Child) -> None:
        expected = self.boots[replica.variant.name].p90_s
        deadline = replica.born_s + max(_SLOWEST_BOOT * expected, 60.0 * self._clock.scale)
        while True:
            if not child.alive:
                raise RuntimeError(f"it ended while booting: {child.last_words()}")
            if self._clock.now() > deadline:
                raise RuntimeError(f"no boot takes {_SLOWEST_BOOT:g} times {expected:.0f} s")
            if await self._healthy(replica):
                return
            await self._read_phase(replica)
            await asyncio.sleep(_POLL_S)

    async def _healthy(self, replica: Replica) -> bool:
        quick = aiohttp.ClientTimeout(total=1)
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._session.get(f"{replica.url}/health", timeout=quick) as answer:
                return answer.status == 200
        return False

    async def _read_phase(self, replica: Replica) -> None:
        if replica.state_port is None:
            return
        url = f"http://127.0.0.1:{replica.state_port}/emulator/state"
        quick = aiohttp.ClientTimeout(total=1)
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._session.get(url, timeout=quick) as answer:
                replica.detail = str((await answer.json())["phase"])

    async def _drain(self, replica: Replica) -> None:
        """Wait for the last stream, at most the fleet's drain time, then end it."""
        deadline = replica.since_s + self.fleet.drain_s
        told = False
        while self._clock.now() < deadline:
            # A gateway that does not answer now may a moment later.
            with suppress(GatewayError):
                if not told:
                    await self._gateway.drain_replica(self.fleet.name, replica.name)
                    told = True
                servers = (await self._gateway.stats())[self.fleet.name].replicas
                if not any(one.in_flight for one in servers if one.name == replica.name):
                    break
            await asyncio.sleep(_POLL_S)
        replica.tasks = [one for one in replica.tasks if one is not asyncio.current_task()]
        await self._end(replica)
        self._note(f"{replica.name} left", "drained")

    async def _end(self, replica: Replica) -> None:
        """Take a replica out of the gateway and end its process and tasks.

        It is forgotten last: whoever is cancelled on the way leaves it to the next who asks.
        """
        async with replica.ending:
            if replica.name not in self.replicas:
                return
            for task in replica.tasks:
                task.cancel()
            await asyncio.gather(*replica.tasks, return_exceptions=True)
            if replica.in_gateway:
                with suppress(GatewayError):
                    await self._gateway.remove_replica(
                        self.fleet.name, replica.name, cut_streams=True
                    )
                replica.in_gateway = False
            if replica.child is not None:
                await replica.child.stop()
            del self.replicas[replica.name]
            self.gone[replica.name] = self._clock.now()
            self.changed.set()
