"""The controller's own metrics."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from neuronfleet.serving.planner.staffing import Counts

Place = tuple[str, str]
"""Variant and phase."""
Series = dict[tuple[Gauge, tuple[str, ...]], int]
"""Values by gauge and labels."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Exporter:
    """Counters and gauges in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._published: dict[str, Series] = {}
        self.decision_seconds = Histogram(
            "neuronfleet_controller_decision_seconds",
            "From a sample received to the last write that it caused; 0 writes count too.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.decisions = Counter(
            "neuronfleet_controller_decisions",
            "Decisions that changed a fleet's size or its reason, by reason.",
            ["reason"],
            registry=registry,
        )
        self.errors = Counter(
            "neuronfleet_controller_reconcile_errors",
            "Reconciles that ended in an error, by the step that failed.",
            ["step"],
            registry=registry,
        )
        self.calls = Counter(
            "neuronfleet_controller_api_calls",
            "Calls to the API server, by verb, kind and HTTP status (0: no answer).",
            ["verb", "kind", "status"],
            registry=registry,
        )
        self.leading = Gauge(
            "neuronfleet_controller_leading", "1 while this pod holds the Lease.", registry=registry
        )
        self.fleets = Gauge(
            "neuronfleet_controller_fleets", "Fleets that are known.", registry=registry
        )
        self.tick_seconds = Histogram(
            "neuronfleet_controller_tick_seconds",
            "One round over all fleets.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.desired = Gauge(
            "neuronfleet_fleet_desired_replicas",
            "Replicas decided, by fleet and variant; not carried out where the fleet is Advisory.",
            ["fleet", "variant", "mode"],
            registry=registry,
        )
        self.replicas = Gauge(
            "neuronfleet_fleet_replicas",
            "Replicas found, by fleet, variant and phase.",
            ["fleet", "variant", "phase"],
            registry=registry,
        )

    def count_call(self, verb: str, kind: str, status: int) -> None:
        """Note one call to the API server."""
        self.calls.labels(verb=verb, kind=kind, status=str(status)).inc()

    def publish(self, fleet: str, mode: str, desired: Counts, found: Mapping[Place, int]) -> None:
        """Set a fleet's gauges; series of variants that it no longer has go."""
        series: Series = {(self.desired, (fleet, v, mode)): n for v, n in desired.items()}
        series |= {(self.replicas, (fleet, *place)): n for place, n in found.items()}
        for gauge, labels in self._published.get(fleet, {}).keys() - series.keys():
            gauge.remove(*labels)
        for (gauge, labels), value in series.items():
            gauge.labels(*labels).set(value)
        self._published[fleet] = series

    def forget(self, fleet: str) -> None:
        """Take a deleted fleet's series away."""
        for gauge, labels in self._published.pop(fleet, {}):
            gauge.remove(*labels)

    def clear(self) -> None:
        """Publish of no fleet: another process leads, and its word counts."""
        for fleet in list(self._published):
            self.forget(fleet)
