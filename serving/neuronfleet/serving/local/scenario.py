"""LocalRun: how a fleet is run on this machine. A document beside the fleets in the same file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from neuronfleet.serving.api.fields import Fields, duration_seconds
from neuronfleet.serving.api.fleet import Manifest
from neuronfleet.serving.api.problems import Problem, SpecError

KIND = "LocalRun"
_DAY = 86_400.0


class Shape(StrEnum):
    """How the rate of a generated load moves."""

    POISSON = "poisson"
    """The declared rate throughout."""
    BURST = "burst"
    DIURNAL = "diurnal"
    STAGES = "stages"
    TRACE = "trace"
    """Arrivals of a trace file."""


class FaultMode(StrEnum):
    """What is done to a replica while it serves."""

    KILL = "kill"
    """kill -9 of its process."""
    DEAD_ENGINE = "dead-engine"
    WRONG_TEXT = "wrong-text"
    HANG = "hang"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Generated traffic of one fleet. Times are seconds of the fleet's own time."""

    fleet: str
    shape: Shape = Shape.POISSON
    rate: float | None = None
    """Requests a second; None takes the fleet's declared rate."""
    peak: float | None = None
    every_s: float = 600.0
    lasting_s: float = 60.0
    swing: float = 0.5
    """Part of the mean by which a diurnal load swings."""
    period_s: float = 3600.0
    stages: tuple[tuple[float, float], ...] = ()
    """(from second, requests a second), ascending."""
    trace: str | None = None
    speed: float = 1.0
    """Seconds of the trace in one of the fleet's."""
    batch_share: float = 0.0
    """Part of the requests sent as batch, which wait for slots that others leave idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """A fault that the run puts on one serving replica."""

    at_s: float
    fleet: str
    mode: FaultMode


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPhases:
    """Durations of an emulated boot, seconds of the fleet's own time."""

    node_s: float = 0.0
    image_s: float = 0.0
    weights_s: float = 302.0
    graphs_s: float = 112.0
    graphs_missed_s: float = 659.0
    """In place of graphs_s where nothing was compiled ahead of time."""
    warm_up_s: float = 134.0

    @property
    def total_s(self) -> float:
        """A boot whose graphs are all there."""
        return self.node_s + self.image_s + self.weights_s + self.graphs_s + self.warm_up_s


NO_BOOT = BootPhases(weights_s=0.0, graphs_s=0.0, graphs_missed_s=0.0, warm_up_s=0.0)
"""A replica that is there at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """One run on this machine."""

    name: str = "local"
    time_scale: float = 1.0
    """Seconds of the fleet's time in one of this machine's."""
    duration_s: float | None = None
    """Fleet seconds until the run ends by itself; None until it is interrupted."""
    seed: int = 42
    stream_interval: int = 1
    """Tokens a chunk of a stream, as vLLM's option of that name."""
    canary_every_s: float = 60.0
    boot: BootPhases = field(default_factory=BootPhases)
    loads: tuple[Load, ...] = ()
    faults: tuple[ScheduledFault, ...] = ()


def seconds(name: str, text: str) -> float:
    """A duration of the command line.

    Raises:
        SpecError: it is none.
    """
    value = duration_seconds(text)
    if value is None or value <= 0:
        raise SpecError(f"{name} = {text}, must be a duration above 0, as 90s, 30m or 1h30m")
    return value


def read(manifest: Manifest) -> LocalRun:
    """The run that a file declares, or the default one.

    Raises:
        SpecError: every problem of the document.
    """
    if not manifest.others:
        return LocalRun(loads=tuple(Load(fleet=fleet.name) for fleet in manifest.fleets))
    problems: list[Problem] = []
    if len(manifest.others) > 1:
        problems.append(Problem(path="kind", value="two LocalRuns", allowed="must be at most one"))
    names = [fleet.name for fleet in manifest.fleets]
    run = _read(manifest.others[0], names, problems)
    if problems:
        raise SpecError.of(KIND, problems)
    return run


def _read(document: Mapping[str, Any], names: list[str], problems: list[Problem]) -> LocalRun:
    fields = Fields(document, "", problems)
    fields.text("apiVersion")
    fields.text("kind")
    metadata, spec = fields.section("metadata"), fields.section("spec")
    loads = tuple(_read_load(item, names) for item in spec.items("traffic"))
    run = LocalRun(
        name=metadata.text("name"),
        time_scale=spec.number("timeScale", 0.01, 1000, 1.0),
        duration_s=spec.seconds("duration", 1, _DAY * 30, 0) or None,
        seed=spec.integer("seed", 0, 2**31, 42),
        stream_interval=spec.integer("streamInterval", 1, 1024, 1),
        canary_every_s=spec.seconds("canaryEvery", 0.1, _DAY, 60.0),
        boot=_read_boot(spec.section("boot")),
        loads=loads or tuple(Load(fleet=name) for name in names),
        faults=tuple(_read_fault(item, names) for item in spec.items("faults")),
    )
    sent = [load.fleet for load in loads]
    for name in {one for one in sent if sent.count(one) > 1}:
        spec.problem("traffic", f"{name} twice", "must name each fleet at most once")
    for section in (metadata, spec, fields):
        section.close()
    return run


def _read_load(fields: Fields, names: list[str]) -> Load:
    shape = Shape(fields.choice("shape", list(Shape), Shape.POISSON))
    stages = []
    for item in fields.items("stages"):
        stages.append(
            (item.seconds("at", 0, _DAY * 30, 0), item.number("requestsPerSecond", 0, 100_000))
        )
        item.close()
    load = Load(
        fleet=fields.choice("fleet", names, names[0] if names else None),
        shape=shape,
        rate=fields.number("requestsPerSecond", 0, 100_000, 0.0) or None,
        peak=fields.number("peakRequestsPerSecond", 0, 100_000, 0.0) or None,
        every_s=fields.seconds("every", 1, _DAY, 600.0),
        lasting_s=fields.seconds("lasting", 1, _DAY, 60.0),
        swing=fields.number("swing", 0, 1, 0.5),
        period_s=fields.seconds("period", 1, _DAY * 30, 3600.0),
        stages=tuple(stages),
        trace=fields.optional("file"),
        speed=fields.number("speed", 0.001, 10_000, 1.0),
        batch_share=fields.number("batchShare", 0, 1, 0.0),
    )
    _check_load(fields, load)
    fields.close()
    return load


def _check_load(fields: Fields, load: Load) -> None:
    if load.shape is Shape.TRACE and load.trace is None:
        fields.problem("file", "nothing", "must be given with shape trace")
    if load.trace is not None and load.shape is not Shape.TRACE:
        fields.problem("file", load.trace, "must be given with shape trace alone")
    if load.shape is Shape.STAGES and not load.stages:
        fields.problem("stages", "nothing", "must be given with shape stages")
    if load.shape is Shape.BURST and load.peak is None:
        fields.problem("peakRequestsPerSecond", "nothing", "must be given with shape burst")
    starts = [start for start, _ in load.stages]
    if starts != sorted(set(starts)):
        fields.problem("stages", starts, "must be in ascending order of at")


def _read_fault(fields: Fields, names: list[str]) -> ScheduledFault:
    fault = ScheduledFault(
        at_s=fields.seconds("at", 0, _DAY * 30, 0.0),
        fleet=fields.choice("fleet", names, names[0] if names else None),
        mode=FaultMode(fields.choice("mode", list(FaultMode))),
    )
    fields.close()
    return fault


def _read_boot(fields: Fields) -> BootPhases:
    default = BootPhases()
    phases = BootPhases(
        node_s=fields.seconds("node", 0, _DAY, default.node_s),
        image_s=fields.seconds("image", 0, _DAY, default.image_s),
        weights_s=fields.seconds("weights", 0, _DAY, default.weights_s),
        graphs_s=fields.seconds("graphs", 0, _DAY, default.graphs_s),
        graphs_missed_s=fields.seconds("graphsMissed", 0, _DAY, default.graphs_missed_s),
        warm_up_s=fields.seconds("warmUp", 0, _DAY, default.warm_up_s),
    )
    fields.close()
    return phases
