"""Bring a fleet up on this machine, keep it running, and take every part of it down again."""

import asyncio
import hashlib
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from neuronfleet.serving.api.fleet import Mode, ServingFleet
from neuronfleet.serving.gateway.keys import ClientKey, TrafficClass
from neuronfleet.serving.gateway.process import GatewayProcess
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings
from neuronfleet.serving.local import record
from neuronfleet.serving.local.children import free_port, free_port_from
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.fleet import Event, RunningFleet
from neuronfleet.serving.local.jobs import Jobs
from neuronfleet.serving.local.ledger import Ledger
from neuronfleet.serving.local.loop import ControlLoop
from neuronfleet.serving.local.observe import Observer
from neuronfleet.serving.local.page.server import start_page
from neuronfleet.serving.local.prober import Prober
from neuronfleet.serving.local.prometheus import Prometheus
from neuronfleet.serving.local.roster import Roster
from neuronfleet.serving.local.setup import Setup
from neuronfleet.serving.local.snapshot import About, Recorder
from neuronfleet.serving.local.staff import staffing_spec
from neuronfleet.serving.planner.prepare import price_of


class LocalFleet:
    """One run. `async with` brings it up; leaving takes every child down within seconds."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.stopping = asyncio.Event()
        self.page_url: str | None = None
        self.fleets: list[RunningFleet] = []
        self._stack = AsyncExitStack()
        self._started = datetime.now(UTC)
        self._key = secrets.token_urlsafe(32)

    async def __aenter__(self) -> "LocalFleet":
        try:
            await self._bring_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _bring_up(self) -> None:
        setup, enter = self.setup, self._stack
        await setup.engine.prepare()
        directory = Path(enter.enter_context(tempfile.TemporaryDirectory(prefix="nf-")))
        self.session = await enter.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        gateway_settings = self._gateway_settings()
        self.endpoint = f"http://127.0.0.1:{gateway_settings.port}/v1"
        self.gateway = await enter.enter_async_context(
            GatewayProcess(gateway_settings, directory / "gateway")
        )
        self.prometheus = Prometheus(
            directory / "prometheus", gateway_settings.metrics_port, setup.rules
        )
        await self.prometheus.start()
        if self.prometheus.child is not None:
            enter.push_async_callback(self.prometheus.child.stop)
        # The fleet's time begins here: what took long before it is no part of the run.
        specs = [
            await asyncio.to_thread(staffing_spec, fleet, setup.engine, setup.prices)
            for fleet in setup.manifest.fleets
        ]
        self.clock = FleetClock(setup.run.time_scale)
        self._started = datetime.now(UTC)
        self.fleets = [
            self._running(fleet, spec, directory)
            for fleet, spec in zip(setup.manifest.fleets, specs, strict=True)
        ]
        enter.push_async_callback(self._stop_replicas)
        self._wire(gateway_settings)
        if setup.page:
            page = await start_page(self.recorder.document, setup.page_port)
            enter.push_async_callback(page.close)
            self.page_url = page.url
            if page.port != setup.page_port:
                setup.say(f"port {setup.page_port} is taken; the page is on {page.port}")
        self._start_advised()

    def _gateway_settings(self) -> GatewaySettings:
        setup = self.setup
        port = free_port_from(setup.port)
        if port != setup.port:
            setup.say(f"port {setup.port} is taken; the endpoint is on {port}")
        scale = setup.run.time_scale
        return GatewaySettings(
            fleets=tuple(
                GatewayFleet(
                    name=fleet.name,
                    models=(fleet.model.name,),
                    queue_seconds=max(0.001, fleet.queue_s / scale),
                )
                for fleet in setup.manifest.fleets
            ),
            port=port,
            canary_port=free_port(),
            metrics_port=free_port(),
            keys_file=setup.keys_file,
            own_keys=(self._own_key(),),
        )

    def _own_key(self) -> ClientKey:
        """The key of the run's own traffic, known to this run alone."""
        digest = hashlib.sha256(self._key.encode()).hexdigest()
        return ClientKey(sha256=digest, traffic=TrafficClass.INTERACTIVE, name="this run")

    def _running(self, fleet: ServingFleet, staffing: Any, directory: Path) -> RunningFleet:
        prices = {
            variant.name: price_of(variant, fleet, self.setup.prices) for variant in fleet.variants
        }

        def note(text: str, reason: str) -> None:
            running.events.append(
                Event(at_s=self.clock.now(), kind="replica", text=text, reason=reason)
            )

        roster = Roster(
            fleet,
            self.setup.engine,
            clock=self.clock,
            session=self.session,
            gateway=self.gateway.runtime,
            directory=directory,
            note=note,
        )
        running = RunningFleet(
            spec=fleet, staffing=staffing, roster=roster, ledger=Ledger(prices), prices=prices
        )
        return running

    def _wire(self, gateway_settings: GatewaySettings) -> None:
        setup = self.setup
        self.observer = Observer(
            clock=self.clock,
            session=self.session,
            prometheus=self.prometheus,
            gateway=self.gateway.runtime,
        )
        self.loop = ControlLoop(
            self.fleets,
            observer=self.observer,
            gateway=self.gateway.runtime,
            clock=self.clock,
            budget=setup.manifest.budget,
        )
        about = About(
            name=setup.run.name,
            engine=setup.engine.name,
            time_scale=setup.run.time_scale,
            duration_s=setup.run.duration_s,
            endpoint=self.endpoint,
            budget=setup.manifest.budget,
        )
        self.recorder = Recorder(about, self.fleets, clock=self.clock, observer=self.observer)
        self.jobs = Jobs(
            setup,
            self.fleets,
            clock=self.clock,
            session=self.session,
            gateway=self.gateway,
            prometheus=self.prometheus,
            loop=self.loop,
            recorder=self.recorder,
            prober=Prober(
                setup.engine,
                clock=self.clock,
                session=self.session,
                canary_port=gateway_settings.canary_port,
            ),
            endpoint=self.endpoint,
            key=self._key,
        )

    def _start_advised(self) -> None:
        """Start the minimum of fleets whose decisions are not carried out: somebody has to."""
        for fleet in self.fleets:
            if fleet.spec.mode is Mode.ADVISORY:
                names = [one.name for one in fleet.staffing.variants]
                first = next(one for one in fleet.spec.variants if one.name in names)
                for _ in range(fleet.spec.bounds.min_replicas):
                    fleet.roster.start(first)

    async def _stop_replicas(self) -> None:
        await asyncio.gather(*(fleet.roster.stop() for fleet in self.fleets))

    async def serve(self) -> dict[str, Any]:
        """Run until the duration is over or `stopping` is set; the run's record."""
        tasks = [asyncio.create_task(job) for job in self.jobs.all()]
        done_early = await self._until_over(tasks)
        elapsed = self.clock.now()
        for fleet in self.fleets:
            if fleet.client is not None:
                await fleet.client.stop()
        await self.jobs.read_lateness()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if done_early is not None:
            raise done_early
        self.recorder.tick()
        self.recorder.finished = True
        return record.build(
            self.recorder.about, self.fleets, started=self._started, elapsed_s=elapsed
        )

    async def _until_over(self, tasks: Sequence[asyncio.Task[None]]) -> BaseException | None:
        """Wait for the end; the error of a job that ended with one."""
        over = asyncio.create_task(self.stopping.wait())
        waiting = {over, *tasks}
        try:
            while not over.done():
                rest = self._rest_s()
                if rest is not None and rest <= 0:
                    return None
                done, waiting = await asyncio.wait(
                    waiting, timeout=rest, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done - {over}:
                    if task.exception() is not None:
                        return task.exception()
            return None
        finally:
            over.cancel()

    def _rest_s(self) -> float | None:
        """Real seconds that the run still has; None where it ends only when told."""
        duration = self.setup.run.duration_s
        return None if duration is None else (duration - self.clock.now()) / self.clock.scale
