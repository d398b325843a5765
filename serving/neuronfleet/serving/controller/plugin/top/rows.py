"""Replicas with what they hold, make and cost: pure, over objects and measurements."""

from collections.abc import Sequence
from dataclasses import dataclass

from neuronfleet.serving.api.fields import duration_seconds
from neuronfleet.serving.api.status import FleetStatus, VariantStatus
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.plugin.reader import Body
from neuronfleet.serving.controller.plugin.top.metrics import Measured
from neuronfleet.serving.controller.records import PodRecord, fleet_key
from neuronfleet.serving.controller.source import SCRAPED_AT, Reading
from neuronfleet.serving.planner.observation import Phase

PULL_FAILURES = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError",
    "ErrImageNeverPull",
)  # fmt: skip
START_FAILURES = ("CrashLoopBackOff", "CreateContainerError", "CreateContainerConfigError",
                  "RunContainerError")  # fmt: skip
_MAX_AGE_S = 60.0
"""As `metrics.maxAge` where a fleet gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One replica. None is unknown."""

    replica: str
    """Its pod."""
    variant: str
    node: str | None
    phase: Phase
    held: float | None
    """Sequences that it runs: the load of its dollars per million."""
    ceiling: int | None
    tokens_per_s: float | None
    """Output tokens a second; emulated seconds where it is emulated."""
    usd_per_hour: float | None
    emulated: bool

    @property
    def usd_per_million(self) -> float | None:
        """Dollars per million output tokens at the load it holds; None without a token."""
        return dollars_per_million(self.usd_per_hour, self.tokens_per_s)

    @property
    def figures(self) -> str:
        """Where its figures come from."""
        if self.emulated:
            return "emulated"
        return "unknown" if self.tokens_per_s is None else "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """One fleet."""

    namespace: str
    name: str
    load: float | None
    """In flight and queued."""
    queued: float | None
    ceiling: int | None
    """Slots of all serving replicas."""
    sample_age_s: float | None
    stale: bool
    """Whether the sample is older than the fleet's metrics.maxAge: what it says is unknown."""
    rows: tuple[Row, ...]

    @property
    def tokens_per_s(self) -> float | None:
        """Of all replicas that serve or finish; None where one's is unknown."""
        return _sum([one.tokens_per_s for one in self._making])

    @property
    def usd_per_hour(self) -> float | None:
        """Of all replicas, those included that serve nothing yet."""
        return _sum([one.usd_per_hour for one in self.rows])

    @property
    def usd_per_million(self) -> float | None:
        """Dollars per million output tokens of the fleet at its load."""
        return dollars_per_million(self.usd_per_hour, self.tokens_per_s)

    @property
    def figures(self) -> str:
        """Where the fleet's figures come from: one word, or all that it has."""
        return " and ".join(sorted({one.figures for one in self._making})) or "unknown"

    @property
    def _making(self) -> list[Row]:
        return [one for one in self.rows if one.phase in (Phase.SERVING, Phase.DRAINING)]


def dollars_per_million(usd_per_hour: float | None, tokens_per_s: float | None) -> float | None:
    """$0.76/h at 400 tok/s: 0.76 / (400 * 3600) * 1e6 = 0.528; None where nothing is made."""
    if usd_per_hour is None or not tokens_per_s:
        return None
    return usd_per_hour / (tokens_per_s * 3600) * 1e6


def top_of(fleet: Body, pods: Sequence[Body], measured: Measured, now: float) -> Top:
    """One fleet with its replicas' pods; `now` in Unix seconds."""
    metadata = fleet["metadata"]
    key = fleet_key(metadata["namespace"], metadata["name"])
    status = FleetStatus.from_dict(fleet.get("status") or {})
    variants = {one.name: one for one in status.variants}
    reading = measured.readings.get(key, Reading())
    scraped = reading.recorded.get(SCRAPED_AT)
    age = None if scraped is None else max(0.0, now - scraped)
    stale = age is not None and age > _max_age(fleet)
    fresh = Reading() if stale else reading
    queued = fresh.recorded.get("fleet:queued:sum")
    rows = [_row(pod, key, variants, fresh, measured) for pod in map(records.pod, pods)]
    return Top(
        namespace=metadata["namespace"],
        name=metadata["name"],
        load=None if queued is None else sum(fresh.in_flight.values()) + queued,
        queued=queued,
        ceiling=status.ceiling,
        sample_age_s=age,
        stale=stale,
        rows=tuple(sorted(rows, key=lambda row: (row.variant, row.phase, row.replica))),
    )


def phase_of(pod: PodRecord) -> Phase:
    """Where a pod is in a replica's life, by itself."""
    if pod.terminating:
        return Phase.DRAINING
    if pod.ready:
        return Phase.SERVING
    failed = pod.waiting in (*PULL_FAILURES, *START_FAILURES)
    return Phase.FAILED if failed else Phase.BOOTING


def price_of(variant: VariantStatus | None) -> float | None:
    """Dollars an hour of one replica: the status prices the desired count of them."""
    if variant is None or variant.usd_per_hour is None or not variant.desired:
        return None
    return variant.usd_per_hour / variant.desired


def _row(
    pod: PodRecord,
    key: str,
    variants: dict[str, VariantStatus],
    reading: Reading,
    measured: Measured,
) -> Row:
    variant = variants.get(pod.variant)
    scale = measured.time_scales.get((key, pod.name))
    tokens = measured.tokens_per_s.get((key, pod.name))
    return Row(
        replica=pod.name,
        variant=pod.variant,
        node=pod.node,
        phase=phase_of(pod),
        held=reading.in_flight.get(pod.name),
        ceiling=None if variant is None else variant.ceiling,
        # At scale 20 a real second holds 20 emulated ones: 8,000 tok/s are 400 emulated.
        tokens_per_s=tokens / scale if tokens is not None and scale else tokens,
        # What no node carries yet costs nothing yet.
        usd_per_hour=price_of(variant) if pod.scheduled else 0.0,
        emulated=scale is not None,
    )


def _max_age(fleet: Body) -> float:
    given = ((fleet.get("spec") or {}).get("metrics") or {}).get("maxAge")
    seconds = duration_seconds(given)
    return _MAX_AGE_S if seconds is None else seconds


def _sum(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if values and len(known) == len(values) else None
