"""ServingFleet: a declared model, its traffic and its objective, and how it may be scaled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from neuronfleet.serving.api.canary import Canary, read_canary
from neuronfleet.serving.api.documents import read_documents
from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.model import Model, read_model
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.api.traffic import Objective, Traffic, read_objective, read_traffic
from neuronfleet.serving.api.variant import Variant, read_variant

API_VERSION = "neuronfleet.dev/v1alpha1"
NAME = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
MOST_REPLICAS = 10_000
_DAY = 86_400.0


class Mode(StrEnum):
    """Whether decisions are carried out."""

    ACTIVE = "Active"
    ADVISORY = "Advisory"


class Forecast(StrEnum):
    """How the load at the end of a boot is guessed."""

    NONE = "none"
    TREND = "trend"
    """Continue the slope of the last boot time, never downwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The user's bounds, which precede every law."""

    min_replicas: int
    """Fewest replicas; 0 is taken only after `idleAfter`."""
    max_replicas: int
    """Most replicas."""
    standby: int = 0
    """Booted replicas kept beyond what the law asks."""
    idle_after_s: float | None = None
    """Idle time after which min 0 is taken; None: a fleet never goes below 1 by itself."""
    forecast: Forecast = Forecast.TREND
    """How the load at the end of a boot is guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFleet:
    """One model's fleet as its owner declares it."""

    name: str
    model: Model
    """The model that is served: its name, weights and architecture."""
    variants: tuple[Variant, ...]
    """Ways to serve the model, in order of preference where they cost the same."""
    objective: Objective
    """The service objective of a request."""
    traffic: Traffic
    """The declared load: open (a rate) or closed (a concurrency), and its lengths."""
    replicas: int | None = None
    """A fixed count; excludes `scaling`. Neither given is one replica."""
    scaling: Scaling | None = None
    """The user's bounds within which the fleet scales itself; excludes `replicas`."""
    drain_s: float = 600.0
    """How long a leaving replica may finish its streams."""
    queue_s: float = 60.0
    """How long a request may wait for a slot before it is refused with 503."""
    metrics_max_age_s: float = 60.0
    """Older samples count as unknown."""
    regions: tuple[str, ...] = ()
    """Residency: regions in which the model may be served; empty means any."""
    mode: Mode = Mode.ACTIVE
    """Whether decisions are carried out (Active) or only published (Advisory)."""
    canary: Canary = field(default_factory=Canary)
    """The question that a replica must answer before it is ready."""

    @property
    def bounds(self) -> Scaling:
        """Bounds in force: a fixed count is a minimum and maximum of the same."""
        if self.scaling is not None:
            return self.scaling
        count = 1 if self.replicas is None else self.replicas
        return Scaling(min_replicas=count, max_replicas=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What several fleets may cost together."""

    name: str
    usd_per_hour: float
    fleets: tuple[str, ...]
    """Highest priority first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that one file declares."""

    fleets: tuple[ServingFleet, ...]
    budget: Budget | None = None
    others: tuple[Mapping[str, Any], ...] = ()
    """Documents of kinds that other rooms read, as LocalRun."""


def load(path: Path, *, other_kinds: Sequence[str] = ()) -> Manifest:
    """Parse a file of YAML documents.

    Raises:
        SpecError: every problem of the file, each with its path, value and allowed range.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "not UTF-8 text"
        raise SpecError(f"{path}: {reason}, must be a readable YAML file") from wrong
    return parse(text, source=str(path), base=path.parent, other_kinds=other_kinds)


def parse(
    text: str, *, source: str = "input", base: Path = Path(), other_kinds: Sequence[str] = ()
) -> Manifest:
    """Parse YAML documents; see `load`."""
    documents = read_documents(text, source)
    problems: list[Problem] = []
    fleets: list[ServingFleet] = []
    budgets: list[Budget] = []
    others: list[Mapping[str, Any]] = []
    for index, document in enumerate(documents):
        prefix = f"[{index}]" if len(documents) > 1 else ""
        fields = Fields(document, prefix, problems)
        fields.choice("apiVersion", [API_VERSION])
        kind = fields.choice("kind", ["ServingFleet", "Budget", *other_kinds])
        if kind in other_kinds:
            others.append(document)
        elif kind == "Budget":
            budgets.append(_read_budget(fields))
        else:
            fleets.append(_read_fleet(fields, base))
    _check_together(fleets, budgets, problems)
    if problems:
        raise SpecError.of(source, problems)
    return Manifest(
        fleets=tuple(fleets), budget=budgets[0] if budgets else None, others=tuple(others)
    )


def _check_together(
    fleets: list[ServingFleet], budgets: list[Budget], problems: list[Problem]
) -> None:
    """What no single document can know."""
    if not fleets and not problems:
        problems.append(Problem(path="", value="no ServingFleet", allowed="must hold at least one"))
    for what, names in (
        ("metadata.name", [fleet.name for fleet in fleets]),
        ("spec.model.name", [fleet.model.name for fleet in fleets]),
    ):
        for name in {one for one in names if names.count(one) > 1}:
            problems.append(Problem(path=what, value=name, allowed="must be unique in the file"))
    if len(budgets) > 1:
        problems.append(Problem(path="kind", value="two Budgets", allowed="must be at most one"))
    known = {fleet.name for fleet in fleets}
    for budget in budgets:
        for name in budget.fleets:
            if name not in known:
                allowed = f"must be one of {', '.join(sorted(known))}"
                problems.append(Problem(path="spec.fleets", value=name, allowed=allowed))


def _read_budget(fields: Fields) -> Budget:
    name, spec = _read_head(fields)
    budget = Budget(
        name=name,
        usd_per_hour=spec.number("usdPerHour", 0.01, 1_000_000),
        fleets=spec.strings("fleets", most=1000),
    )
    spec.close()
    fields.close()
    return budget


def _read_head(fields: Fields) -> tuple[str, Fields]:
    metadata = fields.section("metadata")
    name = metadata.text("name", pattern=NAME, most=63)
    metadata.pairs("labels", most=1000)
    metadata.pairs("annotations", most=1000)
    metadata.optional("namespace")
    metadata.close()
    return name, fields.section("spec")


def _read_fleet(fields: Fields, base: Path) -> ServingFleet:
    name, spec = _read_head(fields)
    fleet = read_spec(name, spec, base)
    fields.close()
    return fleet


def from_object(document: Mapping[str, Any]) -> ServingFleet:
    """A fleet from one object as Kubernetes gives it, with its status and all its metadata.

    Fields that this version does not know stop nothing: another version stored them. No file is
    read: a model whose facts lie in `config` has unknown ones.

    Raises:
        SpecError: every value that is wrong.
    """
    problems: list[Problem] = []
    fields = Fields(document, "", problems, tolerant=True)
    fields.choice("apiVersion", [API_VERSION], API_VERSION)
    fields.choice("kind", ["ServingFleet"], "ServingFleet")
    name = fields.section("metadata").text("name", pattern=NAME, most=63)
    fleet = read_spec(name, fields.section("spec"), None)
    if problems:
        raise SpecError.of(f"ServingFleet {name or 'without a name'}", problems)
    return fleet


def read_spec(name: str, spec: Fields, base: Path | None) -> ServingFleet:
    """Parse `spec` of the fleet `name`; see `read_model` for `base`."""
    model = read_model(spec.section("model"), base)
    variants = tuple(read_variant(item) for item in spec.items("variants", most=16))
    _check_variants(spec, variants)
    replicas, scaling = _read_count(spec)
    drain, metrics = spec.section("drain"), spec.section("metrics")
    queue, residency = spec.section("queue"), spec.section("residency")
    fleet = ServingFleet(
        name=name,
        model=model,
        variants=variants,
        objective=read_objective(spec.section("objective")),
        traffic=read_traffic(spec.section("traffic")),
        replicas=replicas,
        scaling=scaling,
        drain_s=drain.seconds("timeout", 0, _DAY, 600.0),
        queue_s=queue.seconds("timeout", 0.1, _DAY, 60.0),
        metrics_max_age_s=metrics.seconds("maxAge", 1, _DAY, 60.0),
        regions=residency.strings("regions"),
        mode=Mode(spec.choice("mode", list(Mode), Mode.ACTIVE)),
        canary=read_canary(spec.section("canary")),
    )
    for section in (drain, metrics, queue, residency, spec):
        section.close()
    return fleet


def _check_variants(spec: Fields, variants: tuple[Variant, ...]) -> None:
    if not variants:
        spec.problem("variants", "nothing", "must hold at least one variant")
    names = [variant.name for variant in variants]
    for at, name in enumerate(names):
        if name in names[:at]:
            spec.problem(f"variants[{at}].name", name, "must be unique in the fleet")


def _read_count(spec: Fields) -> tuple[int | None, Scaling | None]:
    has_scaling = "scaling" in spec
    fields = spec.section("scaling")
    replicas = None
    if "replicas" in spec:
        replicas = spec.integer("replicas", 0, MOST_REPLICAS)
        if has_scaling:
            spec.problem("replicas", replicas, "must not be given beside scaling")
    else:
        spec.integer("replicas", 0, MOST_REPLICAS, 0)
    if not has_scaling:
        return replicas, None
    low = fields.integer("minReplicas", 0, MOST_REPLICAS, 1)
    high = fields.integer("maxReplicas", 1, MOST_REPLICAS)
    if low > high:
        fields.problem("minReplicas", low, f"must be in [0, maxReplicas = {high}]")
    scaling = Scaling(
        min_replicas=low,
        max_replicas=high,
        standby=fields.integer("standby", 0, MOST_REPLICAS, 0),
        idle_after_s=fields.seconds("idleAfter", 1, _DAY, 0) or None,
        forecast=Forecast(fields.choice("forecast", list(Forecast), Forecast.TREND)),
    )
    fields.close()
    return replicas, scaling
