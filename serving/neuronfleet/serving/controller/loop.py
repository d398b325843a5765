"""The one loop: observe all fleets by one query, judge each, act, write one status."""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from time import time as unix_time

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller import standing
from neuronfleet.serving.controller.acts import Apply
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
from neuronfleet.serving.planner.observation import Phase, Sample

_log = logging.getLogger(__name__)
_AT_ONCE = 16
"""Fleets that are written at the same time."""
_SETTLE_S = 0.2
"""Changes are collected for this long, so that one burst of events is one reconcile."""
_THROTTLED = 429
_WINDOWS = 2.0
"""Samples are kept for this many P90 boot times: `decide` looks over one at peaks over one."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a fleet needs written."""

    record: FleetRecord
    memory: FleetMemory
    judged: Judged | None
    """None where the fleet is left as it is."""
    after: FleetStatus


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
        self._writing: dict[str, asyncio.Task[None]] = {}
        """The last writes of each fleet: no round waits for them."""
        self._again: set[str] = set()
        """Fleets to look at again once their writes are done."""

    async def run(self) -> None:
        """Round after round until cancelled; changes of objects are taken up in between."""
        try:
            while True:
                await self.round()
                # Jitter: two controllers that start together do not ask together.
                pause = self._settings.interval_s * self._rng.uniform(0.95, 1.05)
                await self._follow(monotonic() + pause)
        finally:
            # Nothing is written once another one may lead.
            for task in self._writing.values():
                task.cancel()
            await asyncio.gather(*self._writing.values(), return_exceptions=True)

    async def settled(self) -> None:
        """Return once every write that was begun is done."""
        await asyncio.gather(*self._writing.values())

    async def _follow(self, until: float) -> None:
        """Take up what changes until then."""
        while (left := until - monotonic()) > 0:
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
                self._store.tidy(key)
                self._writing.pop(key, None)
        return changed

    async def _reconcile_all(self, keys: Iterable[str], received: float) -> None:
        """Judge these fleets, and begin what each of them needs written."""
        for key in keys:
            record, writing = self._store.fleets.get(key), self._writing.get(key)
            if record is None or record.deleted:
                continue
            if writing is not None and not writing.done():
                self._again.add(key)
                continue
            if (work := self._looked_at(record)) is not None:
                self._writing[key] = asyncio.create_task(self._carry_out(work, received))
            # Writes go out while the rest is still being judged: a call takes a few of these turns.
            await asyncio.sleep(0)

    def _looked_at(self, record: FleetRecord) -> _Work | None:
        """What there is to do for a fleet; one that cannot be judged does not stop the others."""
        try:
            return self._prepare(record)
        except Exception:
            _log.exception("%s could not be judged", record.key)
            self._exporter.errors.labels(step="judge").inc()
            return None

    def _prepare(self, record: FleetRecord) -> _Work | None:
        now = self._now()
        memory = self._gatherer.remember(record, now)
        if (owner := self._gatherer.taken_by(record)) is not None:
            text = f"model {record.model} is served by {owner}, which is older"
            return self._told(record, memory, "ModelTaken", text)
        try:
            judged = judge(self._gatherer.view(record, now), now)
        except SpecError as wrong:
            return self._told(record, memory, "InvalidSpec", " ".join(str(wrong).split()))
        children = self._children(record, memory)
        acts = any(step(judged, children) for _, step in STEPS)
        if not acts:
            memory.refused = None
        after = standing.status_of(judged)
        self._remember_capacity(judged, memory)
        self._export(judged)
        if not acts and not standing.worth_writing(memory.status, after):
            return None
        return _Work(record=record, memory=memory, judged=judged, after=after)

    def _told(
        self, record: FleetRecord, memory: FleetMemory, reason: str, text: str
    ) -> _Work | None:
        """A fleet that is left as it is, and why."""
        after = standing.refused(record, memory.status, "Degraded", reason, text, self._now())
        if not standing.worth_writing(memory.status, after):
            return None
        return _Work(record=record, memory=memory, judged=None, after=after)

    async def _carry_out(self, work: _Work, received: float) -> None:
        """The steps in their order, then one status patch, then Events."""
        key, before = work.record.key, work.memory.status
        try:
            async with self._gate:
                errors = await self._step_by_step(work)
                try:
                    await self._tell(work, before, received)
                except KubeError as error:
                    self._failed(work.record, "status", error)
                    errors.append(error)
            final = [str(e) for e in errors if 400 <= e.status < 500 and e.status != _THROTTLED]
            work.memory.refused = final[0] if final else None
            if errors:
                # Nothing is lost: the next round finds the difference again.
                self._store.changed.add(key)
        except Exception:
            _log.exception("%s: writing failed", key)
            self._exporter.errors.labels(step="write").inc()
        finally:
            if key in self._again:
                self._again.discard(key)
                self._store.wake(key)

    async def _step_by_step(self, work: _Work) -> list[KubeError]:
        """Perform what each step wants; one that is refused does not keep the others."""
        errors: list[KubeError] = []
        if work.judged is None:
            return errors
        namespace = work.record.namespace
        for name, step in STEPS:
            try:
                for act in step(work.judged, self._children(work.record, work.memory)):
                    if errors and isinstance(act, Apply) and not act.ours:
                        continue  # nothing new is begun without what should be around it
                    await self._kube.perform(namespace, act)
            except KubeError as error:
                self._failed(work.record, name, error)
                errors.append(error)
            await self._after_step(work.record.key, name)
        return errors

    async def _tell(self, work: _Work, before: FleetStatus, received: float) -> None:
        record, after = work.record, work.after
        if standing.worth_writing(before, after):
            change = standing.patch(before, after)
            await self._kube.patch_status(record.namespace, record.name, change)
            work.memory.status = after
        await self._after_step(record.key, "status")
        self._exporter.decision_seconds.observe(monotonic() - received)
        for event in standing.events(record, before, after, self._now()):
            await self._kube.post_event(record.namespace, event)

    def _failed(self, record: FleetRecord, step: str, error: KubeError) -> None:
        self._exporter.errors.labels(step=step).inc()
        _log.warning("%s: %s failed: %s", record.key, step, error)

    def _children(self, record: FleetRecord, memory: FleetMemory) -> Children:
        return Children(
            settings=self._settings.workloads,
            record=record,
            found=self._store.applied(record.key),
            memo=memory.manifests,
        )

    def _remember_capacity(self, judged: Judged, memory: FleetMemory) -> None:
        until = judged.now + self._settings.patience.capacity_retry_s
        for seat in judged.people.seats:
            # One that goes on waiting, since no other variant can take its part, is no reason to
            # leave its variant alone.
            if seat.unplaced and seat.phase is Phase.FAILED:
                memory.without_capacity[seat.seen.variant] = until
        boots = max(boots.p90_s for boots in memory.boots.values())
        idle = judged.view.fleet.bounds.idle_after_s or 0.0
        memory.forget_before(judged.now - max(_WINDOWS * boots, 600.0, 1.5 * idle))

    def _export(self, judged: Judged) -> None:
        key, mode = judged.view.record.key, str(judged.view.fleet.mode)
        places = Counter((s.seen.variant, str(s.phase)) for s in judged.people.seats if s.pod)
        self._exporter.publish(key, mode, judged.decision.desired, places)
        last = judged.view.status.last_decision
        if last is None or last.reason != judged.decision.reason:
            self._exporter.decisions.labels(reason=str(judged.decision.reason)).inc()
