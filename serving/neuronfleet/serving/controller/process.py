"""The operator's process: watches, Lease, loop and endpoints, begun and ended together."""

import asyncio
import contextlib
import logging
import multiprocessing
import random
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from time import monotonic

import aiohttp
import kopf
from kubernetes.aio.client import ApiClient

from neuronfleet.serving.api import prices
from neuronfleet.serving.controller import health, operator, source
from neuronfleet.serving.controller.exporter import Exporter
from neuronfleet.serving.controller.gateway_source import GatewaySource
from neuronfleet.serving.controller.gather import Gatherer
from neuronfleet.serving.controller.kube import Kube, KubeError
from neuronfleet.serving.controller.lease import Lease
from neuronfleet.serving.controller.loop import ControlLoop, Hook, no_hook
from neuronfleet.serving.controller.settings import ControllerSettings
from neuronfleet.serving.controller.source import Reading
from neuronfleet.serving.controller.store import Store
from neuronfleet.serving.controller.tables import Tables

_log = logging.getLogger(__name__)
_CRD_WAIT_S = 5.0
_HUNG_S = 120.0
"""A leader whose loop has not come round for this long has hung."""


def _worker() -> Executor:
    # Spawned: a forked worker would hold both ends of its pipe, and outlive a killed parent.
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=spawn)


class Operator:
    """One controller process."""

    def __init__(
        self,
        settings: ControllerSettings,
        client: ApiClient,
        *,
        identity: str,
        after_step: Hook = no_hook,
        rng: random.Random | None = None,
    ) -> None:
        self.store, self.exporter = Store(), Exporter()
        self._settings, self._client, self._identity = settings, client, identity
        self._rng = rng or random.Random()
        self._kube = Kube(client, count=self.exporter.count_call, rng=self._rng)
        self._after_step = after_step
        self._synced = asyncio.Event()
        self._came_round: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; the Lease is released on the way out."""
        runner = await health.serve(
            self.exporter,
            host=self._settings.http_host,
            port=self._settings.http_port,
            problem=self._problem,
        )
        lease = Lease(
            self._client,
            namespace=self._settings.lease_namespace,
            name=self._settings.lease_name,
            identity=self._identity,
        )
        watching = asyncio.create_task(self._watch(stop))
        leading = asyncio.create_task(lease.run(self._lead))
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait(
                {watching, leading, stopping}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done - {stopping}:
                task.result()
        finally:
            stop.set()
            leading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leading
            await lease.release()
            stopping.cancel()
            await watching
            await runner.cleanup()

    async def _watch(self, stop: asyncio.Event) -> None:
        # kopf looks once which kinds there are.
        while not await self._kube.knows_fleets():
            _log.warning("the API server knows no ServingFleet: is the CRD installed?")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _CRD_WAIT_S)
                return
        namespaces = self._settings.namespaces
        await kopf.operator(
            registry=operator.registry(self.store, self._rng),
            namespaces=namespaces,
            clusterwide=not namespaces,
            standalone=True,
            # kopf would ask for the user's name, and a container's has none.
            identity=self._identity,  # type: ignore[arg-type]  # a NewType of str
            stop_flag=stop,
            ready_flag=self._synced,
        )

    async def _lead(self) -> None:
        """What the leader does; cancelled when the Lease is lost."""
        await self._synced.wait()
        await operator.caught_up(self.store, self._kube, self._settings.namespaces)
        self.exporter.leading.set(1)
        _log.info("leading as %s", self._identity)
        tables = Tables(
            prices.newest(), expected_boot_s=self._settings.expected_boot_s, workers=_worker
        )
        try:
            async with aiohttp.ClientSession() as session:
                await self._loop(tables, session)
        finally:
            self.exporter.leading.set(0)
            self.exporter.clear()
            self._came_round = None
            await tables.close()

    async def _loop(self, tables: Tables, session: aiohttp.ClientSession) -> None:
        async def ask() -> Mapping[str, Reading]:
            self._came_round = monotonic()
            return await source.read(session, self._settings.prometheus_url)

        gatherer = Gatherer(self._settings, self.store, tables)
        loop = ControlLoop(
            self._settings,
            self.store,
            gatherer,
            self._kube,
            self.exporter,
            ask,
            rng=self._rng,
            stand_in=GatewaySource(session, self._gateways).read,
            after_step=self._after_step,
        )
        tables.on_made = self.store.wake_all
        async with asyncio.TaskGroup() as group:
            group.create_task(operator.resync(self.store, self._kube, self._settings.namespaces))
            group.create_task(loop.run())

    async def _gateways(self) -> list[str]:
        """Where the gateway's pods tell their counters."""
        home = self._settings.workloads.gateway_namespace
        try:
            found = await self._kube.addresses(home, self._settings.gateway_service)
        except KubeError:
            return []
        return [f"http://{one}:{self._settings.gateway_port}" for one in found]

    def _problem(self) -> str | None:
        if self._came_round is None:
            return None
        silent = monotonic() - self._came_round - self._settings.interval_s
        return f"the loop has not come round for {silent:.0f} s" if silent > _HUNG_S else None
