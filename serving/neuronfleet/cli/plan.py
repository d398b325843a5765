"""`neuronfleet plan`: what a declared load costs on each variant, and what the evidence says."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.local import scenario
from neuronfleet.serving.planner.advice import Advice, advise
from neuronfleet.serving.planner.plan import Row, plan
from neuronfleet.serving.planner.verdict import crossover, verdict

EXAMPLE = "Example: `neuronfleet plan examples/llama-3.1-8b.yaml`"


def command(
    file: Annotated[Path, typer.Argument(help="YAML file of ServingFleet documents.")],
    price_file: Annotated[
        Path | None, typer.Option("--prices", help="Another price catalog (JSON).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Plan each fleet of a file: one row a variant, with its price at the declared load."""
    with console.bad_input_exits():
        manifest = fleet.load(file, other_kinds=(scenario.KIND,))
        scenario.read(manifest)
        catalog = prices.newest() if price_file is None else prices.from_file(price_file)
    documents = []
    for one in manifest.fleets:
        rows = plan(one, catalog)
        advice = _advice(one, rows)
        if json:
            documents.append(document(one, rows, advice, catalog))
        else:
            _print(one, rows, advice, catalog)
    if json:
        console.print_json(documents)


def _advice(one: fleet.ServingFleet, rows: tuple[Row, ...]) -> Advice | None:
    """Advice for the cheapest Neuron row: the one that would be deployed."""
    neuron = [
        row
        for row in rows
        if row.fits and row.variant.instance.is_neuron and row.usd_per_million_output_tokens
    ]
    best = min(neuron, key=lambda row: row.usd_per_million_output_tokens or 0.0, default=None)
    return None if best is None else advise(one, best)


def document(
    one: fleet.ServingFleet,
    rows: tuple[Row, ...],
    advice: Advice | None,
    catalog: prices.PriceCatalog,
) -> dict[str, Any]:
    """The plan as docs/schemas/plan.json describes it; null is unknown."""
    return {
        "fleet": one.name,
        "model": one.model.name,
        "load": str(one.traffic),
        "objective": {
            "ttft_ms": one.objective.ttft_ms,
            "tpot_ms": one.objective.tpot_ms,
            "attainment": one.objective.attainment,
        },
        "prices_dated": catalog.dated.isoformat(),
        "rows": [_row(one, row, rows) for row in rows],
        "advice": None
        if advice is None
        else {
            "variant": advice.variant,
            "change": advice.change,
            "usd_per_million_before": advice.usd_per_million_before,
            "usd_per_million_after": advice.usd_per_million_after,
            "gain": advice.gain,
            "extrapolated": advice.extrapolated,
            "basis": "simulated at the objective's knee",
        },
    }


def _row(one: fleet.ServingFleet, row: Row, rows: tuple[Row, ...]) -> dict[str, Any]:
    crossing = crossover(one, row, rows)
    price = row.price
    return {
        "variant": row.variant.name,
        "instance_type": row.variant.instance.name,
        "capacity_type": str(row.variant.capacity_type),
        "fits": row.fits,
        "why_not": "; ".join(row.why_not) or None,
        "ceiling": row.ceiling.slots,
        "ceiling_source": str(row.ceiling.source),
        "memory_slots": row.ceiling.memory_slots,
        "ttft_ms": row.figures.ttft_p50_ms,
        "tpot_ms": row.figures.tpot_p50_ms,
        "output_tok_per_s": row.figures.output_tok_per_s,
        "replicas": row.replicas,
        "nodes": row.nodes,
        "usd_per_hour": row.usd_per_hour,
        "usd_per_million_output_tokens": row.usd_per_million_output_tokens,
        "load": str(one.traffic),
        "attainment": row.attainment,
        "knee_requests_per_second": row.knee,
        "basis": None if row.basis is None else str(row.basis),
        "basis_source": row.source,
        "figures": _figures(row),
        "verdict": verdict(one, row, rows),
        "crossover": None
        if crossing is None
        else {
            "winner": crossing.winner,
            "loser": crossing.loser,
            "from_requests_per_second": crossing.from_requests_per_second,
            "ratio": crossing.ratio,
            "latencies_known": crossing.latencies_known,
        },
        "price": None
        if price is None
        else {
            "usd_per_hour": price.usd_per_hour,
            "region": price.region,
            "as_of": price.as_of.isoformat(),
            "source": price.source,
        },
    }


def _print(
    one: fleet.ServingFleet,
    rows: tuple[Row, ...],
    advice: Advice | None,
    catalog: prices.PriceCatalog,
) -> None:
    objective = one.objective
    console.out.print(
        f"[bold]{one.name}[/bold]  {one.model.name}, {one.traffic}; objective TTFT "
        f"{objective.ttft_ms:g} ms, TPOT {objective.tpot_ms:g} ms for {objective.attainment:.0%}"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("variant", "instance", "fits"):
        table.add_column(name)
    for name in ("ceiling", "TTFT p50", "TPOT p50", "tok/s", "replicas", "$/h", "$/1M out", "met"):
        table.add_column(name, justify="right")
    table.add_column("basis")
    table.add_column("figures")
    for row in rows:
        table.add_row(*_cells(row))
    console.out.print(table)
    console.out.print(
        f"[dim]times in ms at that load, measured, simulated or a bound as figures says; met: "
        f"simulated share within the objective; ? is unknown; prices of {catalog.dated}[/dim]\n"
    )
    for row in rows:
        text = verdict(one, row, rows)
        console.out.print(f"[bold]{row.variant.name}[/bold]: {text}", soft_wrap=True)
    if advice is not None:
        beyond = "; beyond what was measured" if advice.extrapolated else ""
        console.out.print(
            f"\nOne change pays most on {advice.variant}: {advice.change} -> "
            f"${advice.usd_per_million_after:.3f} a million at the objective's knee, from "
            f"${advice.usd_per_million_before:.3f} ({advice.gain:.0%} less, simulated{beyond})",
            soft_wrap=True,
        )
    console.out.print()


def _cells(row: Row) -> list[str]:
    figures = row.figures
    return [
        row.variant.name,
        row.variant.instance.name,
        "yes" if row.fits else "no",
        f"{row.ceiling.slots} ({_short(row)})",
        _number(figures.ttft_p50_ms, ",.0f"),
        _number(figures.tpot_p50_ms, ".1f"),
        _number(figures.output_tok_per_s, ",.0f"),
        _number(row.replicas, "d"),
        _number(row.usd_per_hour, ",.2f"),
        _number(row.usd_per_million_output_tokens, ",.3f"),
        _number(row.attainment, ".0%"),
        "?" if row.basis is None else str(row.basis),
        _figures(row),
    ]


def _figures(row: Row) -> str:
    """What kind of numbers the row's latencies and throughput are."""
    if row.basis is None or row.replicas is None:
        return "unknown"
    if row.measured:
        return "measured"
    if not row.variant.instance.is_neuron:
        return "offered"
    return "bound" if str(row.basis) == "roofline" else "simulated"


def _short(row: Row) -> str:
    return {"device memory arithmetic": "memory", "server log": "log"}.get(
        str(row.ceiling.source), "set"
    )


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
