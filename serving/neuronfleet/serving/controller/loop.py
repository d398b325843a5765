"""The one loop: observe all fleets by one query, judge each, act, write one status."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from time import time as unix_time

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller import standing
from neuronfleet.serving.controller.children import Children
from neuronfleet.serving.controller.exporter import Exporter
from neuronfleet.serving.controller.gather import Gatherer
from neuronfleet.serving.controller.judge import Judged, judge
from neuronfleet.serving.controller.kube import Kube, KubeError
from neuronfleet.serving.controller.memory import FleetMemory
from neuronfleet.serving.controller.records import FleetRecord
from neuronfleet.serving.controller.settings import ControllerSettings
from neuronfleet.serving.controller.source import Reading, SourceError
from neuronfleet.serving.controller.steps import STEPS
from neuronfleet.serving.controller.store import Store
from neuronfleet.serving.planner.observation import Sample

_log = logging.getLogger(__name__)
_AT_ONCE = 16
"""Fleets that are written at the same time."""
_SETTLE_S = 0.2
"""Changes are collected for this long, so that one burst of events is one reconcile."""
_WINDOWS = 3
"""Samples are kept for this many P90 boot times: no window of `decide` is longer."""

Ask = Callable[[], Awaitable[Mapping[str, Reading]]]
StandIn = Callable[[float], Awaitable[Mapping[str, Sample]]]
"""Samples for while the source does not answer, by fleet key; told the time in Unix seconds."""
Hook = Callable[[str, str], Awaitable[None]]
"""Called after each step with the fleet's key and the step's name."""


async def no_hook(key: str, step: str) -> None:
    """What happens after a step, outside tests."""


async def _nothing(now: float) -> Mapping[str, Sample]:
    """Where nothing stands in for the source of metrics."""
    return {}


class ControlLoop:
    """Runs while this process leads."""

    def __init__(
        self,
        settings: ControllerSettings,
        store: Store,
        gatherer: Gatherer,
        kube: Kube,
        exporter: Exporter,
        ask: Ask,
        *,
        rng: random.Random,
        stand_in: StandIn = _nothing,
        after_step: Hook = no_hook,
        now: Callable[[], float] = unix_time,
    ) -> None:
        self._settings, self._store, self._gatherer = settings, store, gatherer
        self._kube, self._exporter, self._ask = kube, exporter, ask
        self._rng, self._after_step, self._now = rng, after_step, now
        self._stand_in = stand_in
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Round after round until cancelled; changes of objects are taken up in between."""
        next_round = 0.0
        while True:
            left = next_round - monotonic()
            if left <= 0:
                await self.round()
                # Jitter: two controllers that start together do not ask together.
                next_round = monotonic() + self._settings.interval_s * self._rng.uniform(0.95, 1.05)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._store.woken.wait(), left)
                await asyncio.sleep(_SETTLE_S)
            self._store.woken.clear()
            await self._reconcile_all(self._take_changed(), monotonic())

    async def round(self) -> None:
        """One query, then every fleet, those first whose load changed most."""
        begun = monotonic()
        moved: list[str] = []
        try:
            found = await self._ask()
            received = monotonic()
            moved = self._gatherer.take(found, self._now())
        except SourceError as error:
            stand_in = await self._stand_in(self._now())
            received = monotonic()
            moved = self._gatherer.blind(str(error), stand_in, self._now())
        changed = self._take_changed()
        first = dict.fromkeys([*moved, *changed])
        order = [*first, *(key for key in self._store.fleets if key not in first)]
        await self._reconcile_all(order, received)
        self._exporter.fleets.set(len(self._store.fleets))
        self._exporter.tick_seconds.observe(monotonic() - begun)

    def _take_changed(self) -> list[str]:
        changed = sorted(self._store.changed)
        self._store.changed.clear()
        for key in changed:
            if key not in self._store.fleets:
                self._gatherer.forget(key)
                self._exporter.forget(key)
        return changed

    async def _reconcile_all(self, keys: Iterable[str], received: float) -> None:
        tasks: list[asyncio.Task[None]] = []
        for number, key in enumerate(keys):
            record = self._store.fleets.get(key)
            if record is None or record.deleted:
                continue
            work = self._prepare(record)
            if work is not None:
                tasks.append(asyncio.create_task(self._carry_out(*work, received)))
            if number % 16 == 15:
                # Let writes go out while the rest is still being judged.
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    def _prepare(
        self, record: FleetRecord
    ) -> tuple[FleetRecord, FleetMemory, Judged | None, FleetStatus] | None:
        """What there is to do for a fleet; None where it is as it should be."""
        now = self._now()
        memory = self._gatherer.remember(record, now)
        judged: Judged | None = None
        try:
            judged = judge(self._gatherer.view(record, now), now)
            acts = any(step(judged, self._children(record)) for _, step in STEPS)
            after = standing.status_of(judged)
        except SpecError as wrong:
            text = " ".join(str(wrong).split())
            after = standing.refused(record, memory.status, "Degraded", "InvalidSpec", text, now)
            judged, acts = None, False
        if judged is not None:
            self._remember_capacity(judged, memory)
            self._export(judged)
        if not acts and not standing.worth_writing(memory.status, after):
            return None
        return record, memory, judged, after

    async def _carry_out(
        self,
        record: FleetRecord,
        memory: FleetMemory,
        judged: Judged | None,
        after: FleetStatus,
        received: float,
    ) -> None:
        """The steps in their order, then one status patch, then Events."""
        step_name = "status"
        async with self._gate:
            try:
                if judged is not None:
                    for step_name, step in STEPS:
                        for act in step(judged, self._children(record)):
                            await self._kube.perform(record.namespace, act)
                        await self._after_step(record.key, step_name)
                step_name = "status"
                before = memory.status
                if standing.worth_writing(before, after):
                    change = standing.patch(before, after)
                    await self._kube.patch_status(record.namespace, record.name, change)
                    memory.status = after
                await self._after_step(record.key, step_name)
                self._exporter.decision_seconds.observe(monotonic() - received)
                step_name = "events"
                for event in standing.events(record, before, after, self._now()):
                    await self._kube.post_event(record.namespace, event)
            except KubeError as error:
                self._exporter.errors.labels(step=step_name).inc()
                _log.warning("%s: %s failed: %s", record.key, step_name, error)
                # Nothing is lost: the next round finds the difference again.
                self._store.changed.add(record.key)

    def _children(self, record: FleetRecord) -> Children:
        return Children(
            settings=self._settings.workloads,
            record=record,
            found=self._store.applied(record.key),
            memo=self._gatherer.remember(record, self._now()).manifests,
        )

    def _remember_capacity(self, judged: Judged, memory: FleetMemory) -> None:
        until = judged.now + self._settings.patience.capacity_retry_s
        for seat in judged.people.seats:
            if seat.unplaced:
                memory.without_capacity[seat.seen.variant] = until
        boots = max(boots.p90_s for boots in memory.boots.values())
        idle = judged.view.fleet.bounds.idle_after_s or 0.0
        memory.forget_before(judged.now - max(_WINDOWS * boots, 600.0, 1.5 * idle))

    def _export(self, judged: Judged) -> None:
        key, mode = judged.view.record.key, str(judged.view.fleet.mode)
        for variant, count in judged.decision.desired.items():
            labels = {"fleet": key, "variant": variant, "mode": mode}
            self._exporter.desired.labels(**labels).set(count)
        last = judged.view.status.last_decision
        if last is None or last.reason != judged.decision.reason:
            self._exporter.decisions.labels(reason=str(judged.decision.reason)).inc()
