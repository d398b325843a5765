"""The committed examples as settings and as assemblies, each synthesised once a session."""

import atexit
import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from neuronfleet.infra import app
from neuronfleet.infra.settings import parse
from neuronfleet.infra.settings.model import Owner, Settings

FOLDER = Path(__file__).parents[2] / "examples/infra"
FULL = "us-east-2"
NAMES = ("us-east-2", "sa-east-1", "us-west-2")
DIGEST = "sha256:" + "0123456789abcdef" * 4
Templates = dict[str, dict[str, Any]]


@cache
def settings(name: str) -> Settings:
    """An example after its images were built: without digests there is no Serving stack."""
    found = parse.load(FOLDER / f"{name}.yaml")
    return replace(found, images=tuple(replace(one, digest=DIGEST) for one in found.images))


def synthesise(deployment: Settings, **context: str) -> Path:
    """Synthesise settings into a folder that goes with the process; `context` is `-c`."""
    folder = Path(tempfile.mkdtemp(prefix="neuronfleet-synth-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    app.build(deployment, outdir=str(folder), context=context).synth()
    return folder


@cache
def assembly(name: str) -> Path:
    """An example's assembly. Callers only read it."""
    return synthesise(settings(name))


@cache
def first_assembly(name: str) -> Path:
    """The assembly of an example's first deployment, which creates its node groups."""
    deployment = settings(name)
    groups = [pool.name for pool in deployment.pools if pool.owner is Owner.NODE_GROUP]
    return synthesise(deployment, starting=",".join(groups))


def templates(folder: Path) -> Templates:
    """An assembly's templates, by stack."""
    manifest = json.loads((folder / "manifest.json").read_text())
    return {
        name: json.loads((folder / artifact["properties"]["templateFile"]).read_text())
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
