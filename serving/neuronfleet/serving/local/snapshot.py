"""The run as one JSON document: what page and terminal show, as docs/schemas/state.json says."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neuronfleet.serving.api.fleet import Budget
from neuronfleet.serving.local.clock import FleetClock
from neuronfleet.serving.local.fleet import RunningFleet
from neuronfleet.serving.local.observe import Observer
from neuronfleet.serving.local.traffic import Outcome
from neuronfleet.serving.planner.observation import Origin, Phase
from neuronfleet.serving.planner.staffing import StaffedVariant
from neuronfleet.serving.replica.replay import quantile

_WINDOW_S = 120.0
"""Fleet seconds that latencies look back over."""
_POINTS = 2000
_EVENTS = 60
_SERIES = (
    "t_s",
    "load",
    "queued",
    "slots",
    "booting",
    "serving",
    "draining",
    "ttft_p50_ms",
    "ttft_p90_ms",
    "output_tok_per_s",
    "usd_per_hour",
    "usd_per_million_output_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What does not change while the run lasts."""

    name: str
    engine: str
    time_scale: float
    duration_s: float | None
    endpoint: str
    budget: Budget | None


class Recorder:
    """Keeps the series of every fleet and renders the document."""

    def __init__(
        self,
        about: About,
        fleets: Sequence[RunningFleet],
        *,
        clock: FleetClock,
        observer: Observer,
    ) -> None:
        self.finished = False
        self.about = about
        self._fleets, self._clock, self._observer = fleets, clock, observer
        self._series: dict[str, dict[str, list[float | None]]] = defaultdict(
            lambda: {name: [] for name in _SERIES}
        )

    def tick(self) -> None:
        """Take one point of every series and keep the books."""
        now = self._clock.now()
        for fleet in self._fleets:
            self._account(fleet, now)
            point = {"t_s": now} | self._now(fleet)
            series = self._series[fleet.spec.name]
            for name in _SERIES:
                value = point[name] if name in point else point["replicas"][name]
                series[name].append(value)
                if len(series[name]) > _POINTS:
                    del series[name][0]

    def document(self) -> dict[str, Any]:
        """The state as its schema describes it."""
        about = self.about
        oldest = min(fleet.spec.metrics_max_age_s for fleet in self._fleets)
        metrics = self._observer.metrics(oldest)
        reasons = void_reasons(self._fleets)
        used = [fleet.usd_per_hour() for fleet in self._fleets]
        return {
            "name": about.name,
            "engine": about.engine,
            "time_scale": about.time_scale,
            "elapsed_s": self._clock.now(),
            "duration_s": about.duration_s,
            "finished": self.finished,
            "void": {"void": bool(reasons), "reasons": reasons},
            "metrics": {
                "fresh": metrics.fresh,
                "age_s": metrics.age_s,
                "source": str(Origin.METRICS if metrics.fresh else Origin.GATEWAY),
            },
            "endpoint": about.endpoint,
            "budget": None
            if about.budget is None
            else {
                "usd_per_hour": about.budget.usd_per_hour,
                "used_usd_per_hour": None if None in used else sum(u for u in used if u),
            },
            "fleets": [self._fleet(fleet) for fleet in self._fleets],
        }

    def _account(self, fleet: RunningFleet, now: float) -> None:
        load = self._load(fleet)
        replicas = len(fleet.roster.replicas)
        fleet.peak_replicas = max(fleet.peak_replicas, replicas)
        fleet.peak_load = max(fleet.peak_load, load or 0.0)
        fleet.ledger.advance(
            now,
            usd_per_hour=fleet.usd_per_hour(),
            tokens=fleet.output_tokens(),
            load=load or 0.0,
        )

    def _load(self, fleet: RunningFleet) -> float | None:
        stats = self._observer.stats.get(fleet.spec.name)
        return None if stats is None else float(stats.queued + stats.in_flight)

    def _now(self, fleet: RunningFleet) -> dict[str, Any]:
        stats = self._observer.stats.get(fleet.spec.name)
        recorded = self._observer.readings.get(fleet.spec.name, {})
        recent = _recent(fleet)
        ttfts = [1000 * one.ttft_s for one in recent if one.ttft_s is not None]
        tpots = [1000 * one.tpot_s for one in recent if one.tpot_s is not None]
        fresh = self._observer.metrics(fleet.spec.metrics_max_age_s).fresh
        return {
            "load": self._load(fleet),
            "in_flight": None if stats is None else stats.in_flight,
            "queued": None if stats is None else stats.queued,
            "slots": fleet.slots,
            "replicas": {
                "booting": fleet.count(Phase.BOOTING),
                "serving": fleet.count(Phase.SERVING),
                "draining": fleet.count(Phase.DRAINING),
                "failed": fleet.failures,
            },
            "ttft_p50_ms": quantile(ttfts, 0.5),
            "ttft_p90_ms": quantile(ttfts, 0.9),
            "tpot_p50_ms": quantile(tpots, 0.5),
            "output_tok_per_s": recorded.get("fleet:output_tokens:rate") if fresh else None,
            "usd_per_hour": fleet.usd_per_hour(),
            "usd_per_million_output_tokens": fleet.ledger.per_million(),
            "attainment": fleet.client.attained(recent) if fleet.client else None,
            "arrivals_per_s": recorded.get("fleet:arrivals:rate") if fresh else None,
            "refused_per_s": recorded.get("fleet:refused:rate") if fresh else None,
        }

    def _fleet(self, fleet: RunningFleet) -> dict[str, Any]:
        objective = fleet.spec.objective
        stats = self._observer.stats.get(fleet.spec.name)
        held = {one.name: one.in_flight for one in stats.replicas} if stats else {}
        return {
            "name": fleet.spec.name,
            "model": fleet.spec.model.name,
            "variants": [self._variant(fleet, one) for one in fleet.staffing.variants],
            "objective": {
                "ttft_ms": objective.ttft_ms,
                "tpot_ms": objective.tpot_ms,
                "percentile": objective.percentile,
                "attainment": objective.attainment,
            },
            "now": self._now(fleet),
            "series": self._series[fleet.spec.name],
            "replicas": [
                {
                    "name": one.name,
                    "variant": one.variant.name,
                    "phase": str(one.phase),
                    "detail": one.detail,
                    "since_s": one.since_s,
                    "in_flight": held.get(one.name),
                    "ceiling": one.ceiling,
                }
                for one in fleet.roster.replicas.values()
            ],
            "events": [
                {"at_s": one.at_s, "kind": one.kind, "text": one.text, "reason": one.reason}
                for one in list(fleet.events)[-_EVENTS:]
            ],
        }

    def _variant(self, fleet: RunningFleet, staffed: StaffedVariant) -> dict[str, Any]:
        variant = next(one for one in fleet.spec.variants if one.name == staffed.name)
        return {
            "name": variant.name,
            "instance_type": variant.instance.name,
            "ceiling": staffed.ceiling,
            "ceiling_note": f"min(max_num_seqs {variant.max_num_seqs}, memory)",
            "usd_per_hour": staffed.usd_per_hour,
        }


def void_reasons(fleets: Sequence[RunningFleet]) -> list[str]:
    """Why the run's figures do not count: emulator or client fell behind."""
    reasons: list[str] = []
    for fleet in fleets:
        reasons += fleet.voids.values()
        reasons += list(fleet.client.report().void) if fleet.client else []
    return sorted(set(reasons))


def _recent(fleet: RunningFleet) -> list[Outcome]:
    """Requests that ended within the window, newest last."""
    if fleet.client is None:
        return []
    since = fleet.client.now_s() - _WINDOW_S
    recent = itertools.takewhile(
        lambda one: one.ended_s >= since, reversed(fleet.client.outcomes())
    )
    return list(recent)[::-1]
