"""The model's files on local disk, whole, before the server starts."""

import importlib
import json
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from neuronfleet_replica.settings import Settings, Source, SourceKind

MARKER = ".neuronfleet-complete"
"""Written last: a directory without it is what a start that was cut short left behind."""
S3_COPY = "NEURONFLEET_S3_COPY"
_S3_COPY = "aws s3 sync --only-show-errors"

Fill = Callable[[Path], None]
"""Puts a model's files into a directory; may find there what an earlier try left."""


class SnapshotError(Exception):
    """The model cannot be had; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A model on local disk."""

    path: Path
    reused: bool
    """Whether it was there already."""


def resolve(source: Source, models: Path, environ: Mapping[str, str]) -> Snapshot:
    """The model's directory, filled under `models` where it comes from afar.

    Raises:
        SnapshotError: it is not there, or cannot be brought.
    """
    match source.kind:
        case SourceKind.PATH:
            return _found([Path(source.location)], "model.source.location")
        case SourceKind.PVC:
            claim, _, inside = source.location.partition("/")
            places = [models / inside, models / claim / inside]
            return _found(places, f"claim {claim}, path {inside or '/'}")
        case SourceKind.HUGGING_FACE:
            return _fetched(source, models / "hub", lambda into: _from_hub(source, into))
        case SourceKind.S3:
            return _fetched(source, models / "s3", lambda into: _from_s3(source, into, environ))


def draft_source(settings: Settings) -> Source | None:
    """Where a draft model comes from: the hub where the model does, else a directory."""
    speculation = settings.variant.speculation
    if speculation is None or speculation.draft_model is None:
        return None
    location = speculation.draft_model
    kind = SourceKind.PATH if location.startswith("/") else SourceKind.HUGGING_FACE
    return Source(kind=kind, location=location, revision=None)


def place(source: Source, folder: Path) -> Path:
    """Where a model that comes from afar is kept: one directory a location and revision."""
    location = source.location.removeprefix("s3://").strip("/").replace("/", "--")
    return folder / location / (source.revision or "default").replace("/", "--")


def _found(places: list[Path], what: str) -> Snapshot:
    for path in places:
        if (path / "config.json").is_file():
            return Snapshot(path=path, reused=True)
    looked = " or ".join(str(path) for path in places)
    raise SnapshotError(f"{what}: no config.json in {looked}, must be a model's directory")


def _fetched(source: Source, folder: Path, fill: Fill) -> Snapshot:
    """Fill a directory beside the final one, mark it, and rename it: others see all or nothing."""
    final = place(source, folder)
    wanted = {"location": source.location, "revision": source.revision}
    if _marker(final) == wanted:
        return Snapshot(path=final, reused=True)
    # Named by the pod: its containers go on where the last one stopped, others do not meet.
    aside = final.with_name(f"{final.name}.{socket.gethostname()}.partial")
    aside.mkdir(parents=True, exist_ok=True)
    fill(aside)
    if not (aside / "config.json").is_file():
        raise SnapshotError(f"{source.location}: no config.json came, must be a model")
    (aside / MARKER).write_text(json.dumps(wanted))
    try:
        aside.rename(final)
    except OSError:
        if _marker(final) != wanted:
            raise
        shutil.rmtree(aside, ignore_errors=True)  # another pod on the same volume was first
    return Snapshot(path=final, reused=False)


def _marker(path: Path) -> object:
    try:
        return json.loads((path / MARKER).read_text())
    except (OSError, json.JSONDecodeError):
        return None


def _from_hub(source: Source, into: Path) -> None:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise SnapshotError(
            f"model.source = {source.location} of the hub, but this image has no huggingface_hub: "
            "put the model on a PVC or in S3, or use an image that has it"
        ) from error
    try:
        hub.snapshot_download(source.location, revision=source.revision, local_dir=str(into))
    except Exception as error:  # the hub's client raises its transport's errors as they are
        raise SnapshotError(f"{source.location}: the hub gave no snapshot: {error}") from error


def _from_s3(source: Source, into: Path, environ: Mapping[str, str]) -> None:
    program = shlex.split(environ.get(S3_COPY) or _S3_COPY)
    if not program or shutil.which(program[0], path=environ.get("PATH", os.defpath)) is None:
        raise SnapshotError(
            f"{S3_COPY} = {' '.join(program)!r}, must name a program of this image that is called "
            "with FROM and TO; or mount the bucket as a PVC (Mountpoint for S3) instead"
        )
    status = subprocess.run([*program, source.location, str(into)], env=dict(environ)).returncode
    if status != 0:
        raise SnapshotError(f"{source.location}: {shlex.join(program)} ended with status {status}")
