"""The run's record: one JSON document, as docs/schemas/run.json says, written at the end."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from neuronfleet.serving.local.errors import LocalError
from neuronfleet.serving.local.fleet import RunningFleet
from neuronfleet.serving.local.snapshot import About, void_reasons


def build(
    about: About, fleets: Sequence[RunningFleet], *, started: datetime, elapsed_s: float
) -> dict[str, Any]:
    """The record. Under a time scale every rate, duration and dollar is in fleet time."""
    reasons = void_reasons(fleets)
    return {
        "name": about.name,
        "engine": about.engine,
        "figures": f"{about.engine}, fleet time"
        if about.engine == "emulated"
        else "real vLLM on CPU with a tiny random model",
        "time_scale": about.time_scale,
        "started": started.isoformat(),
        "duration_s": elapsed_s,
        "void": {"void": bool(reasons), "reasons": reasons},
        "budget_usd_per_hour": None if about.budget is None else about.budget.usd_per_hour,
        "fleets": [_fleet(fleet, void=bool(reasons), elapsed_s=elapsed_s) for fleet in fleets],
    }


def _fleet(fleet: RunningFleet, *, void: bool, elapsed_s: float) -> dict[str, Any]:
    """One fleet's summary; the figures of a void run are null, not reported."""
    report = fleet.client.report() if fleet.client else None
    figures: dict[str, Any] = {
        "attainment": report and report.attainment,
        "ttft_ms": report and report.ttft_ms,
        "tpot_ms": report and report.tpot_ms,
        "output_tok_per_s": report and report.output_tokens / elapsed_s,
        "usd_per_million_output_tokens": fleet.ledger.per_million(whole_run=True),
    }
    if void:
        figures = dict.fromkeys(figures)
    requests = report and {
        "offered": report.offered,
        "completed": report.completed,
        "refused": report.refused,
        "failed": report.failed,
        "unfinished": report.unfinished,
    }
    return {
        "name": fleet.spec.name,
        "model": fleet.spec.model.name,
        "requests": requests,
        **figures,
        "mean_load": fleet.ledger.mean_load(),
        "peak_load": fleet.peak_load,
        "peak_replicas": fleet.peak_replicas,
        "replica_failures": fleet.failures,
        "output_tokens": report.output_tokens if report else 0,
        "usd": fleet.ledger.dollars(),
        "events": [
            {"at_s": one.at_s, "kind": one.kind, "text": one.text, "reason": one.reason}
            for one in fleet.events
        ],
    }


def check_writable(path: Path) -> None:
    """Fail before the run rather than after it.

    Raises:
        LocalError: no file can be made there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a"):
            pass
    except OSError as wrong:
        raise LocalError(f"record = {path}: {wrong.strerror}, must be a writable file") from wrong


def write(record: dict[str, Any], path: Path) -> None:
    """Write the record.

    Raises:
        LocalError: the file cannot be written, as where the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=2) + "\n")
    except OSError as wrong:
        raise LocalError(f"record = {path}: {wrong.strerror}, must be a writable file") from wrong
