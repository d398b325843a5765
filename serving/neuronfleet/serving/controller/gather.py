"""From records and memory to the views that are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from neuronfleet.serving.api import fleet as fleets
from neuronfleet.serving.api import pins
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller.memory import FleetMemory
from neuronfleet.serving.controller.records import FleetRecord
from neuronfleet.serving.controller.settings import ControllerSettings
from neuronfleet.serving.controller.source import Reading
from neuronfleet.serving.controller.store import Store
from neuronfleet.serving.controller.tables import Tables
from neuronfleet.serving.controller.view import MetricsState, View
from neuronfleet.serving.controller.workloads import revision
from neuronfleet.serving.planner.observation import Origin, Sample
from neuronfleet.serving.planner.walls import walls


class Gatherer:
    """Builds views; it alone knows what is remembered."""

    def __init__(self, settings: ControllerSettings, store: Store, tables: Tables) -> None:
        self.memories: dict[str, FleetMemory] = {}
        self._settings, self._store, self._tables = settings, store, tables
        self._source_error: str | None = "Prometheus was not asked yet"
        self._owners: dict[str, str] = {}
        """Fleets by the model that they own."""
        self._owners_of = -1
        """The version of the store's fleets that `_owners` was made of."""

    def remember(self, record: FleetRecord, now: float) -> FleetMemory:
        """The memory of a fleet, begun where there is none."""
        memory = self.memories.get(record.key)
        if memory is None or memory.uid != record.uid:
            status = FleetStatus.from_dict(record.body["status"])
            memory = FleetMemory(uid=record.uid, watched_since_s=now, status=status)
            self.memories[record.key] = memory
        return memory

    def forget(self, key: str) -> None:
        """Drop a deleted fleet."""
        self.memories.pop(key, None)
        self._tables.forget(key)

    def take(self, found: Mapping[str, Reading], now: float) -> list[str]:
        """Keep the new samples; the keys of fleets whose load they change, most changed first."""
        self._source_error = None
        moved: list[tuple[float, str]] = []
        for key, record in self._store.fleets.items():
            reading, memory = found.get(key), self.remember(record, now)
            before = _load(memory)
            sample = None if reading is None else _clamped(reading.sample(), now)
            if memory.take(sample, self._store.pods[key]):
                moved.append((abs(_load(memory) - before), key))
        return [key for _, key in sorted(moved, reverse=True)]

    def blind(self, why: str, stand_in: Mapping[str, Sample], now: float) -> list[str]:
        """Note that the source of metrics did not answer, and keep what stands in for it."""
        self._source_error = why
        taken = []
        for key, record in self._store.fleets.items():
            memory, sample = self.remember(record, now), stand_in.get(key)
            if sample is None:
                continue
            if memory.take(_as_long_as_before(sample, memory), self._store.pods[key]):
                taken.append(key)
        return taken

    def spec(self, record: FleetRecord, memory: FleetMemory) -> ServingFleet:
        """The parsed spec.

        Raises:
            SpecError: it cannot be read.
        """
        if memory.parsed is None or memory.parsed[0] != record.generation:
            try:
                read: ServingFleet | SpecError = fleets.from_object(record.body)
            except SpecError as wrong:
                read = wrong
            memory.parsed = (record.generation, read)
        parsed = memory.parsed[1]
        if isinstance(parsed, SpecError):
            raise parsed
        return parsed

    def view(self, record: FleetRecord, now: float) -> View:
        """One fleet and what is around it.

        Raises:
            SpecError: the spec cannot be read.
        """
        memory = self.remember(record, now)
        fleet = self.spec(record, memory)
        pods = list(self._store.pods[record.key].values())
        nodes = [self._store.nodes.get(pod.node or "") for pod in pods]
        silent = {node.name for node in nodes if node is not None and not node.ready}
        memory.notice(pods, silent, now)
        memory.learn(fleet, pods, self._settings.expected_boot_s)
        state, detail = self._metrics(fleet, memory, now)
        return View(
            record=record,
            fleet=fleet,
            status=memory.status,
            staffing=self._tables.staffing(record.key, record.generation, fleet),
            revisions=self._revisions(record, fleet, memory),
            unready_since={uid: since for (uid, _), since in memory.unready.items()},
            idle_since=memory.idle_since,
            blocked=self._blocked(record, fleet, memory),
            pods=tuple(pods),
            deployments=tuple(self._store.deployments[record.key].values()),
            nodes=self._store.nodes,
            samples=tuple(memory.samples),
            metrics=state,
            metrics_detail=detail,
            watched_since_s=memory.watched_since_s,
            boots=memory.boots,
            patience=self._settings.patience,
            without_capacity=dict(memory.without_capacity),
            refused=memory.refused,
        )

    def _revisions(
        self, record: FleetRecord, fleet: ServingFleet, memory: FleetMemory
    ) -> Mapping[str, str]:
        version = (record.generation, record.restarted_at)
        if memory.revisions is None or memory.revisions[0] != version:
            made = {
                variant.name: revision(
                    fleet, variant, self._settings.workloads, record.restarted_at
                )
                for variant in fleet.variants
            }
            memory.revisions = (version, made)
        return memory.revisions[1]

    def _blocked(
        self, record: FleetRecord, fleet: ServingFleet, memory: FleetMemory
    ) -> Mapping[str, str]:
        """Variants of which no pod may be made: walls and clashing pins."""
        if memory.walls is None or memory.walls[0] != record.generation:
            found = {v.name: "; ".join(walls(fleet, v)) for v in fleet.variants}
            memory.walls = (record.generation, {k: v for k, v in found.items() if v})
        nodes = [
            pins.NodeFacts(
                name=node.name,
                sdk=node.sdk,
                driver=node.driver,
                ami=node.ami,
                instance_type=node.instance_type,
            )
            for node in self._store.nodes.values()
            if node.sdk or node.driver or node.ami
        ]
        told = {v.name: _clash(v, nodes) for v in fleet.variants}
        return {**memory.walls[1], **{name: why for name, why in told.items() if why}}

    def taken_by(self, record: FleetRecord) -> str | None:
        """The older fleet that has this one's model already; the gateway's own rule."""
        if self._owners_of != self._store.fleets_version:
            self._owners_of, self._owners = self._store.fleets_version, {}
            ordered = sorted(self._store.fleets.values(), key=lambda f: (f.created_s, f.key))
            for one in ordered:
                self._owners.setdefault(one.model, one.key)
        owner = self._owners.get(record.model)
        return None if owner == record.key else owner

    def _metrics(
        self, fleet: ServingFleet, memory: FleetMemory, now: float
    ) -> tuple[MetricsState, str]:
        if self._source_error is not None:
            return MetricsState.SOURCE_ERROR, self._source_error
        known = [one.at_s for one in memory.samples if one.origin is Origin.METRICS]
        if not known:
            return MetricsState.MISSING, "no series of this fleet's queue: is the gateway scraped?"
        age = now - known[-1]
        if age > fleet.metrics_max_age_s:
            limit = fleet.metrics_max_age_s
            return MetricsState.STALE, f"last sample older than metrics.maxAge = {limit:g} s"
        return MetricsState.FOUND, "load is known"


def _clash(variant: Variant, nodes: Sequence[pins.NodeFacts]) -> str:
    """Why no node may run the variant by its pins; empty where one may, or none is known."""
    found = pins.check(variant, [])
    mine = [node for node in nodes if node.instance_type == variant.instance.name]
    by_node = [pins.check(variant, [node]) for node in mine]
    if not found and by_node and all(by_node):
        found = by_node[0]
    return "; ".join(map(str, found))


def _clamped(sample: Sample | None, now: float) -> Sample | None:
    """The sample, taken at `now` where its clock is ahead of ours: `decide` reads no future."""
    if sample is None or sample.at_s <= now:
        return sample
    return replace(sample, at_s=now)


def _as_long_as_before(sample: Sample, memory: FleetMemory) -> Sample:
    """The sample with the lengths that were last known: the gateway does not know any."""
    if not memory.samples:
        return sample
    last = memory.samples[-1]
    return replace(
        sample,
        prompt_tokens=last.prompt_tokens,
        output_tokens=last.output_tokens,
        seconds_per_request=last.seconds_per_request,
    )


def _load(memory: FleetMemory) -> float:
    if not memory.samples:
        return 0.0
    last = memory.samples[-1]
    return sum(last.in_flight.values()) + last.queued
