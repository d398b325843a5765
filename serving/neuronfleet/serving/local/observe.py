"""What the run sees of its fleets: Prometheus' samples, and the gateway's own counters beside them.

Metrics come first. When Prometheus is silent or stale, the gateway is asked directly; such samples
may justify growth and never a shrink (law 4).
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import aiohttp

from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.gateway.runtime import GatewayRuntime
from neuronfleet.serving.gateway.stats import FleetStats
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.errors import LocalError
from neuronfleet.serving.local.prometheus import LOOKBACK_S, Prometheus, Reading
from neuronfleet.serving.planner.observation import Origin, Sample

_SERIES = '{__name__=~"fleet:.+|haproxy_server_current_sessions"}'
_SCRAPED_AT = 'timestamp(haproxy_backend_current_queue{proxy!~"_.*"})'
_KEPT = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsState:
    """Whether metrics are to be trusted now."""

    fresh: bool
    age_s: float | None
    """Fleet seconds since the last sample; None before the first."""


class Observer:
    """Samples of every fleet, oldest first."""

    def __init__(
        self,
        *,
        clock: FleetClock,
        session: aiohttp.ClientSession,
        prometheus: Prometheus,
        gateway: GatewayRuntime,
    ) -> None:
        self.samples: dict[str, deque[Sample]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self.stats: Mapping[str, FleetStats] = {}
        self.readings: dict[str, dict[str, float]] = {}
        """Recorded series of each fleet as last read, by rule name."""
        self._clock, self._session = clock, session
        self._prometheus, self._gateway = prometheus, gateway
        self._last_metrics_s: float | None = None
        self._last_stats: dict[str, tuple[float, FleetStats]] = {}

    async def look(self, fleets: Iterable[str]) -> None:
        """Take one sample of every fleet, from the best source that answers."""
        try:
            self.stats = await self._gateway.stats()
        except GatewayError:
            self.stats = {}
        try:
            readings = await self._prometheus.query(self._session, _SERIES)
            stamps = await self._prometheus.query(self._session, _SCRAPED_AT)
        except LocalError:
            readings, stamps = [], []
        for fleet in fleets:
            sample = self._from_metrics(fleet, readings, stamps)
            if sample is None:
                sample = self._from_gateway(fleet)
            elif sample.at_s <= self._newest(fleet, Origin.METRICS):
                continue
            if sample is not None:
                self.samples[fleet].append(sample)

    def metrics(self, max_age_s: float) -> MetricsState:
        """Freshness of the metrics at this moment."""
        if self._last_metrics_s is None:
            return MetricsState(fresh=False, age_s=None)
        age = max(0.0, self._clock.now() - self._last_metrics_s)
        return MetricsState(fresh=age <= max_age_s, age_s=age)

    def _newest(self, fleet: str, origin: Origin) -> float:
        return max((s.at_s for s in self.samples[fleet] if s.origin is origin), default=-1.0)

    def _from_metrics(
        self, fleet: str, readings: list[Reading], stamps: list[Reading]
    ) -> Sample | None:
        scraped = [one.value for one in stamps if one.labels.get("proxy") == fleet]
        recorded = {one.name: one.value for one in readings if one.labels.get("fleet") == fleet}
        if not scraped or "fleet:queued:sum" not in recorded:
            return None
        at = self._clock.from_unix(scraped[0])
        if self._clock.now() - at > LOOKBACK_S * self._clock.scale:
            return None
        self._last_metrics_s = max(at, self._last_metrics_s or 0.0)
        self.readings[fleet] = recorded
        in_flight = {
            one.labels["server"]: one.value
            for one in readings
            if one.name == "haproxy_server_current_sessions" and one.labels.get("proxy") == fleet
        }
        return Sample(
            at_s=at,
            origin=Origin.METRICS,
            in_flight=in_flight,
            queued=recorded["fleet:queued:sum"],
            refused_per_s=recorded.get("fleet:refused:rate", 0.0),
            arrivals_per_s=recorded.get("fleet:arrivals:rate"),
            prompt_tokens=recorded.get("fleet:prompt_tokens:mean"),
            output_tokens=recorded.get("fleet:output_tokens:mean"),
            seconds_per_request=recorded.get("fleet:request_seconds:mean"),
        )

    def _from_gateway(self, fleet: str) -> Sample | None:
        """The gateway's counters now; rates are differences to its last answer."""
        stats = self.stats.get(fleet)
        if stats is None:
            return None
        now = self._clock.now()
        before = self._last_stats.get(fleet)
        self._last_stats[fleet] = (now, stats)
        last = self.samples[fleet][-1] if self.samples[fleet] else None
        refused = arrivals = None
        if before is not None and now > before[0]:
            span = now - before[0]
            refused = (stats.refused - before[1].refused) / span
            arrivals = (stats.requests - before[1].requests) / span
        return Sample(
            at_s=now,
            origin=Origin.GATEWAY,
            in_flight={one.name: float(one.in_flight) for one in stats.replicas},
            queued=float(stats.queued),
            refused_per_s=refused or 0.0,
            arrivals_per_s=arrivals,
            prompt_tokens=last.prompt_tokens if last else None,
            output_tokens=last.output_tokens if last else None,
            seconds_per_request=last.seconds_per_request if last else None,
        )
