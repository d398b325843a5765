"""Replay measured points in virtual time and say how far the emulator is from each."""

from collections.abc import Sequence
from dataclasses import dataclass

from neuronfleet.serving.api.evidence import Figures, KneePoint, ServePoint
from neuronfleet.serving.api.hardware import catalog
from neuronfleet.serving.api.variant import default_buckets
from neuronfleet.serving.replica import points
from neuronfleet.serving.replica.fit import BARS
from neuronfleet.serving.replica.timing import PromptTooLongError, TimingModel
from neuronfleet.serving.replica.timings import timing_of

_DEFAULT_MODEL_LEN = 2048
_MEASURED_FAMILY = "inferentia2"
"""Every fit is of runs on this chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One measured point beside its replay."""

    point: ServePoint
    status: str
    """`ok`, the point's own status where it is no measurement, or why it was not replayed."""
    emulated: Figures | None

    def error(self, name: str) -> float | None:
        """Relative error of a figure; None where either side has none."""
        if self.emulated is None:
            return None
        return points.relative_error(
            getattr(self.emulated, name), getattr(self.point.figures, name)
        )

    @property
    def within(self) -> bool:
        """Whether every figure that has a bar is within it."""
        errors = ((self.error(name), bar) for name, bar in BARS.items())
        return all(error is None or abs(error) <= bar for error, bar in errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedKnee:
    """One open-loop point beside its replay."""

    point: KneePoint
    attainment: float | None

    @property
    def within(self) -> bool:
        """Whether the attainments agree within the bar, where there is one to compare."""
        return self.attainment is None or abs(self.attainment - self.point.attainment) <= KNEE_BAR


KNEE_BAR = 0.05
"""Share of requests by which attainments may differ."""


def check(rows: Sequence[ServePoint]) -> list[Checked]:
    """Replay every point; the fit is the product's own, whatever the points."""
    return [_check(point) for point in rows]


def check_knees(rows: Sequence[KneePoint]) -> list[CheckedKnee]:
    """Replay every open-loop point that a timing model was measured for."""
    checked = []
    for point in rows:
        timing = timing_of(point.model, None)
        attained = None
        if timing is not None:
            attained, _ = points.emulated_knee(timing, point, slots=points.DEFAULT_SLOTS)
        checked.append(CheckedKnee(point=point, attainment=attained))
    return checked


def _check(point: ServePoint) -> Checked:
    if point.status != "ok":
        return Checked(point=point, status=point.status, emulated=None)
    chip = catalog().get(point.instance_type)
    if point.instance_type and (chip is None or chip.family != _MEASURED_FAMILY):
        status = f"no timing model measured on {point.instance_type}"
        return Checked(point=point, status=status, emulated=None)
    timing = _timing(point)
    if timing is None:
        return Checked(point=point, status="no timing model of this model", emulated=None)
    try:
        return Checked(point=point, status="ok", emulated=points.emulated(timing, point))
    except PromptTooLongError as wrong:
        return Checked(point=point, status=str(wrong), emulated=None)


def _timing(point: ServePoint) -> TimingModel | None:
    timing = timing_of(point.model, point.tensor_parallel)
    if timing is None:
        return None
    return timing.for_buckets(default_buckets(point.max_model_len or _DEFAULT_MODEL_LEN))
