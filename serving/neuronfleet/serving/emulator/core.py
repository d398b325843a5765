"""What the parts of one replica share: engine, clock, faults, metrics and phase."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from neuronfleet.serving.emulator.boot import Phase
from neuronfleet.serving.emulator.clock import ScaledClock
from neuronfleet.serving.emulator.engine import Engine
from neuronfleet.serving.emulator.faults import Faults
from neuronfleet.serving.emulator.lateness import LatenessLog, Verdict
from neuronfleet.serving.emulator.metrics import VllmMetrics
from neuronfleet.serving.emulator.neuron_metrics import NeuronMetrics
from neuronfleet.serving.emulator.own_metrics import OwnMetrics
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.replica.machine import Done


@dataclass(slots=True)
class Totals:
    """Requests since the start."""

    answered: int = 0
    aborted: int = 0
    refused: int = 0


class Core:
    """One replica without its sockets; a reboot makes a new one."""

    def __init__(self, settings: ReplicaSettings, faults: Faults) -> None:
        self.settings = settings
        self.faults = faults
        self.clock = ScaledClock(settings.time_scale)
        self.lateness = LatenessLog()
        self.totals = Totals()
        self.registry = CollectorRegistry()
        self.engine = Engine(settings.timing, settings.ceiling, self.clock, self)
        self.vllm = VllmMetrics(settings, self.engine.machine, self.registry)
        self.own = OwnMetrics(settings.model, settings.time_scale, self.registry)
        self.neuron: NeuronMetrics | None = None
        if settings.generation == 2:
            self.neuron = NeuronMetrics(settings, self.registry)
        else:
            # Generation 2 forces the multi-process mode, which has none of these.
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.answering = asyncio.Event()
        """Cleared while the replica hangs."""
        self.answering.set()
        self.idle = asyncio.Event()
        """Set while no request is being answered."""
        self.idle.set()
        self._busy = 0
        self._phase = Phase.NODE
        self._gauges()

    def _gauges(self) -> None:
        self.own.gauge("held_sequences", "Running and waiting.", lambda: self.engine.machine.held)
        self.own.gauge("max_held_sequences", "Most ever held.", lambda: self.engine.max_held)
        self.own.gauge("void", "1 where figures do not count.", lambda: float(self.verdict().void))
        self.own.phase(self._phase)

    @property
    def phase(self) -> Phase:
        """Where the replica is in its life."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._phase = phase
        self.own.phase(phase)

    def verdict(self) -> Verdict:
        """Whether what was measured counts."""
        return self.lateness.judge(self.settings.time_scale, self.settings.void_above_ms)

    def work(self, done: Done, late_ms: float) -> None:
        """Count work that ended."""
        self.lateness.record(late_ms / self.settings.time_scale)
        self.own.late(late_ms)
        self.vllm.work(done)
        if self.neuron is not None:
            self.neuron.work(done)

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is being answered meanwhile."""
        self._busy += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self.idle.set()

    def abort(self) -> None:
        """Count a request whose client left."""
        self.totals.aborted += 1
        self.own.aborted.inc()

    def state(self) -> dict[str, Any]:
        """What GET /emulator/state says."""
        machine, late, verdict = self.engine.machine, self.lateness, self.verdict()
        return {
            "model": self.settings.model,
            "phase": self._phase.value,
            "slots": self.settings.ceiling,
            "held": machine.held,
            "max_held": self.engine.max_held,
            "running": len(machine.running),
            "waiting": len(machine.waiting),
            "time_scale": self.settings.time_scale,
            "lateness": {
                "samples": late.samples,
                "p50_ms": late.quantile(0.5),
                "p99_ms": late.quantile(0.99),
                "max_ms": late.max_ms if late.samples else None,
            },
            "void": verdict.void,
            "void_reason": verdict.reason,
            "faults": self.faults.names(),
            "tokens": self.vllm.totals(),
            "requests": {
                "answered": self.totals.answered,
                "aborted": self.totals.aborted,
                "refused": self.totals.refused,
            },
        }
