"""A model: its name, where its weights are, and its architecture facts."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from neuronfleet.serving.api import architecture
from neuronfleet.serving.api.architecture import Architecture
from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import SpecError


class SourceKind(StrEnum):
    """Where weights come from."""

    HUGGING_FACE = "huggingFace"
    """A hub repository, as `org/name`."""
    S3 = "s3"
    """A prefix of a bucket, as `s3://bucket/prefix`."""
    PVC = "pvc"
    """A directory of a PersistentVolumeClaim, as `claim/path`."""
    PATH = "path"
    """A directory that is on the machine, or in the image, already."""


_PATTERNS = {
    SourceKind.HUGGING_FACE: r"[\w.-]+/[\w.-]+",
    SourceKind.S3: r"s3://[a-z0-9.-]+(/.*)?",
    SourceKind.PVC: r"[a-z0-9-]+(/.*)?",
    SourceKind.PATH: r"\S.*",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where a replica finds the weights."""

    kind: SourceKind
    location: str
    """A hub id, `s3://bucket/prefix`, `claim/path` or a directory."""
    revision: str | None = None
    """Commit of a hub repository; None takes its newest."""
    secret: str | None = None
    """Name of the Secret that holds the token of a gated model."""
    service_account: str | None = None
    """ServiceAccount whose identity may read the weights in S3; None takes the namespace's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a fleet serves."""

    name: str
    """What clients send as `model`."""
    source: ModelSource
    """Where its weights are: exactly one of huggingFace, s3, pvc and path."""
    architecture: Architecture | None
    """None where the config is neither built in nor on disk: memory is then unknown."""


def read_model(fields: Fields, base: Path | None) -> Model:
    """Parse `spec.model`; a relative config path is taken from `base`, and no disk read if None."""
    name = fields.text("name", pattern=r"[\w./-]+", most=253)
    source = _read_source(fields.section("source"))
    facts = _read_architecture(fields, source, base)
    fields.close()
    return Model(name=name, source=source, architecture=facts)


def _read_source(fields: Fields) -> ModelSource:
    given = [kind for kind in SourceKind if kind in fields]
    kinds = ", ".join(SourceKind)
    if len(given) != 1:
        found = ", ".join(given) or "nothing"
        fields.problems_at(found, f"must have exactly one of {kinds}")
    kind = given[0] if given else SourceKind.PATH
    location = ""
    for one in SourceKind:
        text = fields.text(one, "", pattern=_PATTERNS[one])
        location = text if one is kind else location
    source = ModelSource(
        kind=kind,
        location=location,
        revision=fields.optional("revision"),
        secret=fields.optional("secret", most=253),
        service_account=fields.optional("serviceAccount", most=253),
    )
    fields.close()
    return source


def _read_architecture(
    fields: Fields, source: ModelSource, base: Path | None
) -> Architecture | None:
    """Built in by name, from a config.json, or recognised by the source's hub id."""
    models = architecture.known_models()
    name = fields.choice("architecture", [*models, *models.values()], "") or None
    config = fields.optional("config")
    if name and config:
        fields.problem("config", config, "must not be given beside architecture")
    try:
        if config:
            return None if base is None else architecture.from_file(base / config, source.location)
        if name:
            return architecture.built_in(name)
        if source.location in models.values():
            return architecture.built_in(source.location)
    except SpecError as wrong:
        fields.problem("config", config, str(wrong).split(": ", 1)[-1])
        return None
    if source.kind is SourceKind.PATH and base is not None:
        local = base / source.location / "config.json"
        if local.is_file():
            return architecture.from_file(local, source.location)
    return None
