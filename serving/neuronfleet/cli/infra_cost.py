"""`neuronfleet infra cost`: dollars a month by pool and by stack, idle and at most."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.infra.commands import tariff
from neuronfleet.infra.commands.bill import Bill, Line, Total
from neuronfleet.infra.commands.cost import cost, document
from neuronfleet.infra.settings import parse
from neuronfleet.serving.api import prices

EXAMPLE = "Example: `neuronfleet infra cost examples/infra/us-east-2.yaml`"


def command(
    file: Annotated[Path, typer.Argument(help="Settings file of the infrastructure.")],
    price_file: Annotated[
        Path | None, typer.Option("--prices", help="Another price catalog of nodes (JSON).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Price a settings file by the month; what has no known price is said, never 0."""
    with console.bad_input_exits():
        settings = parse.load(file)
        catalog = prices.newest() if price_file is None else prices.from_file(price_file)
    bill = cost(settings, catalog)
    if json:
        console.print_json(document(bill, catalog))
        return
    _print(bill, catalog)


def _print(bill: Bill, catalog: prices.PriceCatalog) -> None:
    console.out.print(_lines(bill))
    console.out.print()
    console.out.print(_totals(bill))
    usage = [line for line in bill.lines if line.idle is None or line.most is None]
    lacking = [line for line in bill.lines if line not in usage and line.most_usd is None]
    console.out.print(
        f"\n[dim]dollars a month of 730 hours in {bill.region}, before tax and discounts; idle: "
        "every pool at its minimum, max: at its maximum. Prices of nodes are of "
        f"{catalog.dated}, of services of {tariff.dated()}; --json gives each its source[/dim]"
    )
    console.out.print(f"by use, in no sum: {', '.join(line.what for line in usage)}", markup=False)
    for line in lacking:
        console.out.print(f"unknown: {line.what}: {line.source}", markup=False)


def _lines(bill: Bill) -> Table:
    table = _table("stack", "what", "price")
    stack = None
    for line in bill.lines:
        shown = "" if line.stack == stack else line.stack
        stack = line.stack
        table.add_row(shown, line.what, _price(line), _usd(line.idle_usd), _usd(line.most_usd))
    return table


def _totals(bill: Bill) -> Table:
    table = _table("", "sum of")
    for pool in bill.pools():
        table.add_row("pool", pool, *_pair(bill.idle(pool=pool), bill.most(pool=pool)))
    for stack in bill.stacks():
        table.add_row("stack", stack, *_pair(bill.idle(stack=stack), bill.most(stack=stack)))
    table.add_row("[bold]all", bill.region, *_pair(bill.idle(), bill.most()))
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name == "price" else "left")
    for name in ("idle", "max"):
        table.add_column(name, justify="right")
    return table


def _pair(idle: Total, most: Total) -> tuple[str, str]:
    return str(idle), str(most)


def _price(line: Line) -> str:
    return f"? a {line.unit}" if line.usd is None else f"${line.usd:g} a {line.unit}"


def _usd(amount: float | None) -> str:
    return "?" if amount is None else f"{amount:,.2f}"
