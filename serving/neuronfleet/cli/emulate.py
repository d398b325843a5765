"""`neuronfleet emulate`: one emulated replica over HTTP, or the emulator held against evidence."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.serving.api import evidence, fleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.emulator import serve
from neuronfleet.serving.emulator.check import Checked, CheckedKnee, check, check_knees
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.local import scenario
from neuronfleet.serving.local.emulated import EmulatedEngine
from neuronfleet.serving.replica.fit import BARS

EXAMPLE = (
    "Examples: `neuronfleet emulate examples/llama-3.1-8b.yaml --variant inf2 --port 8000`, "
    "`neuronfleet emulate --check`"
)


def command(
    file: Annotated[Path | None, typer.Argument(help="YAML file with one ServingFleet.")] = None,
    check_points: Annotated[
        bool, typer.Option("--check", help="Replay measured points instead, in virtual time.")
    ] = False,
    evidence_file: Annotated[
        Path | None, typer.Option("--evidence", help="Points to check, instead of our own (CSV).")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="Variant to emulate; the first if none.")] = (
        None
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="API port; 0 takes a free one.")] = (
        8000
    ),
    time_scale: Annotated[float, typer.Option(help="Fleet seconds in one of this machine's.")] = (
        1.0
    ),
    stream_interval: Annotated[int, typer.Option(help="Tokens a chunk of a stream.")] = 1,
    boot: Annotated[bool, typer.Option(help="Go through the boot's phases first.")] = False,
    fault: Annotated[list[Fault] | None, typer.Option(help="Failure mode to start with.")] = None,
    json: Annotated[bool, typer.Option("--json", help="With --check: print JSON.")] = False,
) -> None:
    """Serve one emulated replica, or hold the emulator against measurements.

    Without --json a check exits with 1 where a point is outside its bar.
    """
    with console.bad_input_exits():
        if check_points:
            _check(evidence_file, json=json)
            return
        if file is None:
            raise SpecError("file = nothing, must be given, or --check")
        settings = _settings(file, variant, port, time_scale, stream_interval, boot, fault or [])
    console.err.print(
        f"emulated {settings.model}, {settings.slots} slots, "
        f"{settings.time_scale:g} s of fleet time a second; every figure is emulated"
    )
    uvloop.run(serve.run([settings]))


def _settings(
    file: Path,
    variant: str | None,
    port: int,
    time_scale: float,
    stream_interval: int,
    boot: bool,
    faults: list[Fault],
) -> ReplicaSettings:
    manifest = fleet.load(file, other_kinds=(scenario.KIND,))
    one = manifest.fleets[0]
    names = [each.name for each in one.variants]
    if variant is not None and variant not in names:
        raise SpecError(f"--variant = {variant}, must be one of {', '.join(names)}")
    chosen = one.variants[names.index(variant) if variant else 0]
    run = replace(scenario.read(manifest), time_scale=time_scale, stream_interval=stream_interval)
    if not boot:
        run = replace(run, boot=scenario.NO_BOOT)
    settings = EmulatedEngine(run).settings(one, chosen, port, None)
    return replace(settings, faults=tuple(faults))


def _check(evidence_file: Path | None, *, json: bool) -> None:
    checked = check(evidence.serve_points(evidence_file))
    if json:
        console.print_json([document(one) for one in checked])
        return
    _print_points(checked)
    knees = check_knees(evidence.knee_points()) if evidence_file is None else []
    if knees:
        _print_knees(knees)
    replayed = [one for one in checked if one.emulated is not None]
    if not replayed:
        raise console.fail("no point could be replayed: see its status")
    if not all([*(one.within for one in replayed), *(one.within for one in knees)]):
        raise console.fail("a point is outside its bar")


def document(one: Checked) -> dict[str, Any]:
    """A point as docs/schemas/emulate-check.json describes it; null is unknown."""
    point = one.point
    names = ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms")
    emulated = one.emulated
    return {
        "model": point.model,
        "weights": point.weights,
        "lane": point.lane,
        "isl": point.input_tokens,
        "osl": point.output_tokens,
        "concurrency": point.concurrency,
        "status": one.status,
        "measured": {name: getattr(point.figures, name) for name in names},
        "emulated": {name: emulated and getattr(emulated, name) for name in names},
        "error": {name: one.error(name) for name in names},
        "ttft_p99_ms": {
            "measured": point.figures.ttft_p99_ms,
            "emulated": emulated and emulated.ttft_p99_ms,
        },
        "source": point.source,
    }


def _print_points(checked: list[Checked]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("model", "weights", "isl", "osl", "clients"):
        table.add_column(name, justify="left" if name in ("model", "weights") else "right")
    for name in ("tok/s", "TTFT p50", "TPOT p50", "TTFT p99"):
        table.add_column(f"{name} measured", justify="right")
        table.add_column("emulated", justify="right")
        table.add_column("error", justify="right")
    for one in checked:
        point, ours = one.point, one.emulated
        cells = [point.model, point.weights, str(point.input_tokens), str(point.output_tokens)]
        cells.append(str(point.concurrency))
        if ours is None:
            table.add_row(*cells, one.status, style="dim")
            continue
        for name in ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms", "ttft_p99_ms"):
            error, bar = one.error(name), BARS.get(name, math.inf)
            within = error is None or abs(error) <= bar
            cells += [
                _figure(getattr(point.figures, name)),
                _figure(getattr(ours, name)),
                "" if error is None else f"[{'default' if within else 'red'}]{error:+.2%}",
            ]
        table.add_row(*cells)
    console.out.print(table)
    good = [one for one in checked if one.emulated is not None]
    worst = {name: max((abs(one.error(name) or 0.0) for one in good), default=0.0) for name in BARS}
    met = sum(one.within for one in good)
    text = ", ".join(f"{name} {worst[name]:.2%} (bar {bar:.1%})" for name, bar in BARS.items())
    console.out.print(f"{met} of {len(good)} points within every bar; worst errors: {text}")


def _print_knees(checked: list[CheckedKnee]) -> None:
    console.out.print("\nopen loop, share of requests within TTFT 3 s and TPOT 80 ms:")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("req/s", "measured", "emulated"):
        table.add_column(name, justify="right")
    table.add_column("client")
    for one in checked:
        attained = "?" if one.attainment is None else f"{one.attainment:.1%}"
        pool = "" if one.point.open_loop else f"held back by its pool of {one.point.workers}"
        table.add_row(f"{one.point.rate:g}", f"{one.point.attainment:.1%}", attained, pool)
    console.out.print(table)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"
