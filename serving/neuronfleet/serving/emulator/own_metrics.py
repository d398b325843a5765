"""The emulator's metrics about itself: what a user of its figures has to know."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from neuronfleet.serving.emulator.boot import Phase

_REAL_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_EMULATED_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.3, 1, 3, 10, 60)


class OwnMetrics:
    """The `neuronfleet_emulator_` families."""

    def __init__(self, model: str, scale: float, registry: CollectorRegistry) -> None:
        self._model = model
        self._registry = registry
        self._scale = scale
        self._emulated = Histogram(
            "neuronfleet_emulator_lateness_seconds",
            "How late work started against its due time, in emulated seconds.",
            ["model_name"],
            buckets=_EMULATED_SECONDS,
            registry=registry,
        ).labels(model)
        self._real = Histogram(
            "neuronfleet_emulator_lateness_real_milliseconds",
            "How late work started against its due time, in real milliseconds.",
            ["model_name"],
            buckets=_REAL_MS,
            registry=registry,
        ).labels(model)
        self.aborted = Counter(
            "neuronfleet_emulator_aborted_requests",
            "Requests whose client left before the end.",
            ["model_name"],
            registry=registry,
        ).labels(model)
        self.gauge("time_scale", "Emulated seconds a real second.", lambda: scale)
        self._phase = Gauge(
            "neuronfleet_emulator_phase",
            "1 for the phase of its life that the replica is in.",
            ["model_name", "phase"],
            registry=registry,
        )

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Export what `read` gives at each scrape."""
        family = Gauge(
            f"neuronfleet_emulator_{name}", text, ["model_name"], registry=self._registry
        )
        family.labels(self._model).set_function(read)

    def phase(self, current: Phase) -> None:
        """Note the phase."""
        for phase in Phase:
            self._phase.labels(self._model, phase.value).set(phase is current)

    def late(self, late_ms: float) -> None:
        """Note one piece of work, `late_ms` emulated milliseconds late."""
        self._emulated.observe(late_ms / 1000)
        self._real.observe(late_ms / self._scale)
