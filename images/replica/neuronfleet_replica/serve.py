"""Start the server: resolve the model, say each phase, become vLLM."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from neuronfleet_replica import canary, command, snapshot
from neuronfleet_replica.fields import SettingsError
from neuronfleet_replica.settings import Settings, Source, from_environment

MODELS = "NEURONFLEET_MODELS"
GENERATION = "NEURONFLEET_GENERATION"
"""Said by an image: the generation of its vLLM."""


def say(event: str, **more: object) -> None:
    """One line of JSON with the time: boot phases are learned from these."""
    print(json.dumps({"event": event, "at": round(time.time(), 3), **more}), flush=True)


def serve(environ: Mapping[str, str]) -> None:
    """Become the server; returns never.

    Raises:
        SettingsError: the settings are wrong.
        SnapshotError: the model cannot be had.
    """
    settings = from_environment(environ)
    _check_generation(settings, environ.get(GENERATION))
    if settings.ignored:
        say("settings-ignored", fields=settings.ignored)
    models = Path(environ.get(MODELS, "/models"))
    model = _resolve("model", settings.source, models, environ)
    draft_from = snapshot.draft_source(settings)
    draft = None if draft_from is None else _resolve("draft", draft_from, models, environ)
    arguments = command.command(settings, model, draft)
    canary.forget()
    _become(arguments, {**environ, **command.environment(settings)}, settings)


def _check_generation(settings: Settings, image: str | None) -> None:
    if image is not None and image != str(settings.variant.generation):
        raise SettingsError(
            f"variant.generation = {settings.variant.generation}, must be {image}: "
            "this image's vLLM is of that generation"
        )


def _resolve(what: str, source: Source, models: Path, environ: Mapping[str, str]) -> Path:
    say("snapshot-start", what=what, kind=source.kind, location=source.location)
    found = snapshot.resolve(source, models, environ)
    say("snapshot-end", what=what, path=str(found.path), reused=found.reused)
    return found.path


def _become(arguments: list[str], environ: Mapping[str, str], settings: Settings) -> None:
    say("exec", variant=settings.variant.name, ceiling=settings.variant.ceiling, command=arguments)
    sys.stdout.flush()
    os.execvpe(arguments[0], arguments, dict(environ))
