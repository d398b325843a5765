"""What the controller remembers of a fleet between rounds; all of it can be learned again."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller.children import Memo
from neuronfleet.serving.controller.records import PodRecord
from neuronfleet.serving.planner.boots import BootTimes
from neuronfleet.serving.planner.observation import Sample

KEPT_SAMPLES = 2_000


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """One fleet's past."""

    watched_since_s: float
    status: FleetStatus
    """As last written, or as found at the start."""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    boots: dict[str, BootTimes] = field(default_factory=dict)
    booted: set[str] = field(default_factory=set)
    """Uids of pods whose boot was learned from, or that were ready when we came."""
    live: set[str] = field(default_factory=set)
    gone: dict[str, float] = field(default_factory=dict)
    """Pods whose series may live on, and since when they are deleted (Unix seconds)."""
    without_capacity: dict[str, float] = field(default_factory=dict)
    """Variants that found no node, and until when they are left alone (Unix seconds)."""
    parsed: tuple[int, ServingFleet | SpecError] | None = None
    """The spec of a generation."""
    revisions: tuple[tuple[int, str | None], Mapping[str, str]] | None = None
    """Revisions of a generation and restart."""
    manifests: Memo = field(default_factory=dict)
    walls: tuple[int, Mapping[str, str]] | None = None
    """What keeps variants of a generation from serving at all."""

    def notice(self, names: set[str], now: float) -> None:
        """Keep account of who is there: what a pod held was load until it went."""
        for name in self.live - names:
            self.gone[name] = now
        self.live = names
        counted = {name for sample in self.samples for name in sample.in_flight}
        # Gone before we watched: never to be counted.
        known = {name: self.gone.get(name, 0.0) for name in counted - names}
        self.gone = known

    def take(self, sample: Sample | None) -> bool:
        """Keep a sample that is newer than the last one; whether it was."""
        if sample is None or (self.samples and sample.at_s <= self.samples[-1].at_s):
            return False
        self.samples.append(sample)
        return True

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
