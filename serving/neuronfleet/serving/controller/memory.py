"""What the controller remembers of a fleet between rounds; all of it can be learned again."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller.children import Memo
from neuronfleet.serving.controller.records import PodRecord
from neuronfleet.serving.planner.boots import BootTimes
from neuronfleet.serving.planner.observation import Sample

KEPT_SAMPLES = 2_000
_ALL = "*"


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """One fleet's past."""

    uid: str
    """Of the object that is remembered: another one may take its name."""
    watched_since_s: float
    status: FleetStatus
    """As last written, or as found at the start."""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    boots: dict[str, BootTimes] = field(default_factory=dict)
    booted: set[str] = field(default_factory=set)
    """Uids of pods whose boot was learned from, or that were ready when we came."""
    unready: dict[tuple[str, int], float] = field(default_factory=dict)
    """Pods past their startup that are not ready, by uid and restarts (Unix seconds)."""
    idle_since: dict[str, float] = field(default_factory=dict)
    """Pods that held no stream in any sample since then (Unix seconds)."""
    refused: str | None = None
    """What the API server said of a write that it refused for good."""
    without_capacity: dict[str, float] = field(default_factory=dict)
    """Variants that found no node, and until when they are left alone (Unix seconds)."""
    parsed: tuple[int, ServingFleet | SpecError] | None = None
    """The spec of a generation."""
    revisions: tuple[tuple[int, str | None], Mapping[str, str]] | None = None
    """Revisions of a generation and restart."""
    manifests: Memo = field(default_factory=dict)
    walls: tuple[int, Mapping[str, str]] | None = None
    """What keeps variants of a generation from serving at all."""

    def take(self, sample: Sample | None, live: Collection[str]) -> bool:
        """Keep a sample that is newer than the last one; whether it was.

        Readings of pods that are not `live` are of deleted ones and count for nothing. What each
        replica held matters in the newest sample only: older ones keep the sum, since names of
        10,000 replicas over a long window would fill the memory.
        """
        if sample is None or (self.samples and sample.at_s <= self.samples[-1].at_s):
            return False
        held = {name: count for name, count in sample.in_flight.items() if name in live}
        if self.samples:
            last = self.samples.pop()
            total = sum(last.in_flight.values())
            self.samples.append(replace(last, in_flight={_ALL: total}))
        self.samples.append(replace(sample, in_flight=held))
        still = {name for name, count in held.items() if count == 0}
        self.idle_since = {name: self.idle_since.get(name, sample.at_s) for name in still}
        return True

    def notice(
        self, pods: Collection[PodRecord], silent: Collection[str | None], now: float
    ) -> None:
        """Note since when replicas past their startup are not ready.

        On `silent` nodes nobody asks them: what is known of them is old.
        """
        unready = [
            pod
            for pod in pods
            if pod.started and not pod.ready and not pod.terminating and pod.node not in silent
        ]
        keys = {(p.uid, p.restarts) for p in unready}
        self.unready = {key: self.unready.get(key, now) for key in keys}

    def forget_before(self, at_s: float) -> None:
        """Drop samples that no window reaches any more, the newest of them kept."""
        while len(self.samples) > 1 and self.samples[1].at_s < at_s:
            self.samples.popleft()

    def learn(self, fleet: ServingFleet, pods: list[PodRecord], expected_s: float) -> None:
        """Boot times from pods that became ready since we watch."""
        for variant in fleet.variants:
            if variant.name not in self.boots:
                stored = next((v for v in self.status.variants if v.name == variant.name), None)
                seen = stored.boots if stored is not None else ()
                self.boots[variant.name] = BootTimes(expected_s, seen)
        for pod in pods:
            if not pod.ready or pod.uid in self.booted or pod.variant not in self.boots:
                continue
            self.booted.add(pod.uid)
            # A restart later on, or a probe that failed once, is not a boot.
            if pod.restarts == 0 and pod.ready_changed_s >= self.watched_since_s:
                self.boots[pod.variant].add(pod.ready_changed_s - pod.created_s)
        self.booted &= {pod.uid for pod in pods}
