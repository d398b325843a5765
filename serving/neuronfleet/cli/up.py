"""`neuronfleet up`: a whole fleet on this machine, watched while it scales."""

import asyncio
import signal
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.live import Live
from rich.table import Table

from neuronfleet.cli import console, load
from neuronfleet.monitoring.rules import RuleSettings, render
from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.api.fleet import Manifest
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.errors import GatewayError
from neuronfleet.serving.local import prometheus, record, scenario, terminal
from neuronfleet.serving.local.emulated import EmulatedEngine
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.errors import LocalError
from neuronfleet.serving.local.run import LocalFleet
from neuronfleet.serving.local.scenario import LocalRun
from neuronfleet.serving.local.setup import Setup
from neuronfleet.serving.local.traffic import Assignment
from neuronfleet.serving.local.vllm import VllmEngine
from neuronfleet.serving.replica.replay import Arrival

EXAMPLE = "Example: `neuronfleet up examples/demo.yaml --for 60m`"
_REDRAW_S = 0.5
_LINE_S = 10.0
_DRAIN_HINT = "Ctrl-C ends it"


class EngineName(StrEnum):
    """What runs as a replica."""

    EMULATED = "emulated"
    VLLM = "vllm"


def command(
    file: Annotated[Path, typer.Argument(help="YAML file of ServingFleet documents.")],
    engine: Annotated[
        EngineName, typer.Option(help="Emulated replicas, or real vLLM on CPU.")
    ] = EngineName.EMULATED,
    duration: Annotated[
        str | None, typer.Option("--for", help="End after this fleet time, as 30m.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the endpoint.")] = 8000,
    page_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the page.")] = 8080,
    no_page: Annotated[bool, typer.Option("--no-page", help="Serve no web page.")] = False,
    no_traffic: Annotated[
        bool, typer.Option("--no-traffic", help="Send no requests of our own.")
    ] = False,
    keys: Annotated[
        Path | None, typer.Option(help="File of hashed API keys: lines of `sha256 class name`.")
    ] = None,
    record_to: Annotated[
        Path, typer.Option("--record", help="Where the run's record goes.")
    ] = Path("runs/last.json"),
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Bring up gateway, metrics, control loop and replicas, send the declared traffic, and show it.

    Ctrl-C or SIGTERM ends every process within seconds.
    """
    with console.bad_input_exits():
        manifest = fleet.load(file, other_kinds=(scenario.KIND,))
        run = _run(scenario.read(manifest), duration, engine)
        if no_traffic:
            run = replace(run, loads=())
        sources = _sources(manifest, run, file.parent)
    try:
        record.check_writable(record_to)
        document = uvloop.run(
            _up(
                Setup(
                    manifest=manifest,
                    run=run,
                    engine=_engine(engine, run),
                    prices=prices.newest(),
                    rules=render(_rules(run)),
                    client=lambda assignment: _client(assignment, sources, engine),
                    port=port,
                    page=not no_page,
                    page_port=page_port,
                    keys_file=keys,
                    say=_say,
                ),
                quiet=json,
            )
        )
        # Shown before it is written: a full disk loses the file and not the figures.
        if json:
            console.print_json(document)
        else:
            _print_summary(document)
        record.write(document, record_to)
        console.err.print(f"record {record_to}", markup=False)
    except SpecError as wrong:
        with console.bad_input_exits():
            raise wrong
    except (LocalError, GatewayError) as failed:
        raise console.fail(str(failed)) from failed


def _say(text: str) -> None:
    console.err.print(text, markup=False)


def _run(run: LocalRun, duration: str | None, engine: EngineName) -> LocalRun:
    """The declared run with the command line's word on it."""
    if duration is not None:
        run = replace(run, duration_s=scenario.seconds("--for", duration))
    if engine is EngineName.VLLM:
        # A real engine knows no scaled clock and no faults by request.
        faults = tuple(one for one in run.faults if one.mode is scenario.FaultMode.KILL)
        run = replace(run, time_scale=1.0, faults=faults)
    return run


def _engine(name: EngineName, run: LocalRun) -> Engine:
    return VllmEngine(_say) if name is EngineName.VLLM else EmulatedEngine(run)


def _rules(run: LocalRun) -> RuleSettings:
    return RuleSettings(
        interval_s=prometheus.SCRAPE_S,
        window_s=prometheus.RATE_WINDOW_S,
        time_scale=run.time_scale,
    )


def _sources(manifest: Manifest, run: LocalRun, base: Path) -> dict[str, list[Arrival] | None]:
    """Every load's trace, or None where it is generated."""
    sources: dict[str, list[Arrival] | None] = {}
    for one in run.loads:
        trace = load.recorded(one, manifest, run, base)
        if trace is None:
            sources[one.fleet] = None
            continue
        served = next(f for f in manifest.fleets if f.name == one.fleet)
        longest = max(variant.max_model_len for variant in served.variants)
        sources[one.fleet], dropped = load.fitting(trace, longest)
        _say(
            f"{one.trace}: {trace.format}, {trace.rows} rows, {len(trace.bad)} bad, "
            f"{dropped} longer than maxModelLen {longest} left out"
        )
        for bad in trace.bad[:5]:
            _say(f"  line {bad.line}: {bad.reason}: {bad.text}")
    return sources


def _client(
    assignment: Assignment, sources: dict[str, list[Arrival] | None], engine: EngineName
) -> load.FleetClient:
    maker = load.byte_prompts(assignment.run.seed) if engine is EngineName.VLLM else None
    return load.FleetClient(assignment, sources[assignment.load.fleet], maker)


async def _up(setup: Setup, *, quiet: bool) -> dict[str, Any]:
    local = LocalFleet(setup)
    here = asyncio.get_running_loop()
    task = asyncio.current_task()
    up = False

    def told() -> None:
        # While coming up there is nothing to finish: unwind at once.
        local.stopping.set()
        if not up and task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        here.add_signal_handler(number, told)
    try:
        async with local:
            up = True
            viewer = asyncio.create_task(_view(local, quiet=quiet))
            try:
                return await local.serve()
            finally:
                viewer.cancel()
                await asyncio.gather(viewer, return_exceptions=True)
    except asyncio.CancelledError:
        raise LocalError("interrupted before the fleet was up; everything was stopped") from None


async def _view(local: LocalFleet, *, quiet: bool) -> None:
    """The live view; plain lines where no terminal watches."""
    if local.page_url and not quiet:
        console.err.print(f"page {local.page_url}  {_DRAIN_HINT}")
    if quiet or not console.out.is_terminal:
        while True:
            await asyncio.sleep(_LINE_S)
            console.err.print(terminal.line(local.recorder.document()), markup=False)
    with Live(console=console.out, refresh_per_second=4, transient=False) as live:
        while True:
            live.update(terminal.render(local.recorder.document()))
            await asyncio.sleep(_REDRAW_S)


def _print_summary(document: dict[str, Any]) -> None:
    """What the run came to, every figure with the word that it deserves."""
    void = document["void"]
    console.out.print(f"\n[bold]{document['name']}[/bold]: {document['figures']}", highlight=False)
    if void["void"]:
        console.out.print(
            f"this run is void, its figures are not reported: {'; '.join(void['reasons'])}",
            style="red",
        )
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("fleet")
    for name in ("completed", "refused", "failed", "met", "TTFT p50/p90", "tok/s", "$/1M out"):
        table.add_column(name, justify="right")
    for name in ("at load", "peak load", "peak replicas", "$"):
        table.add_column(name, justify="right")
    number = terminal.number
    for one in document["fleets"]:
        requests, ttft = one["requests"] or {}, one["ttft_ms"] or {}
        met = one["attainment"]
        table.add_row(
            one["name"],
            number(requests.get("completed")),
            number(requests.get("refused")),
            number(requests.get("failed")),
            "?" if met is None else f"{met:.1%}",
            f"{number(ttft.get('p50'))}/{number(ttft.get('p90'))} ms",
            number(one["output_tok_per_s"]),
            number(one["usd_per_million_output_tokens"], 2),
            number(one["mean_load"], 1),
            number(one["peak_load"]),
            number(one["peak_replicas"]),
            number(one["usd"], 3),
        )
    console.out.print(table)
    for one in document["fleets"]:
        for event in one["events"]:
            if event["kind"] in ("scale", "fault"):
                console.out.print(
                    f"{terminal.clock(event['at_s'])}  {one['name']}: {event['text']} "
                    f"({event['reason']})",
                    style="dim",
                    markup=False,
                )
