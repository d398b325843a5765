"""`neuronfleet infra destroy-plan`: what `cdk destroy` takes, what stays, and what that costs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.infra.commands import assembly as assemblies
from neuronfleet.infra.commands.destroy_plan import DestroyPlan, Step, destroy_plan, document
from neuronfleet.infra.settings import parse

EXAMPLE = (
    "Example: `neuronfleet infra destroy-plan examples/infra/us-east-2.yaml --assembly cdk.out`"
)


def command(
    file: Annotated[Path, typer.Argument(help="Settings file of the infrastructure.")],
    assembly: Annotated[
        Path | None,
        typer.Option(help="Folder that `npx cdk synth` wrote: the plan is then exact."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Say how a deployment ends, in order, with commands; nothing is deleted."""
    with console.bad_input_exits():
        settings = parse.load(file)
        stacks = () if assembly is None else assemblies.read(assembly)
    plan = destroy_plan(settings, str(file), stacks)
    if json:
        console.print_json(document(plan))
        return
    _print(plan, exact=bool(stacks))


def _print(plan: DestroyPlan, *, exact: bool) -> None:
    say = console.out.print
    gone = _table("deleted, in this order", "what goes", "protected")
    for stack in plan.stacks:
        gone.add_row(stack.id, stack.what, "yes" if stack.is_protected else "")
    say(gone)
    say()
    kept = _table("kept by", "what stays", "$ a month", "price")
    for one in plan.kept:
        monthly = "?" if one.usd_per_month is None else f"{one.usd_per_month:.2f}"
        kept.add_row(one.stack, one.what, monthly, one.price)
    say(kept)
    for text in plan.stays:
        say(f"stays: {text}", markup=False, soft_wrap=True)
    _print_steps("\nTo delete, keeping data:", plan.steps)
    _print_steps("\nWhat deletes data, and nothing else does:", plan.for_good)
    if not exact:
        say("\n[dim]of the settings alone; --assembly cdk.out counts what was synthesised[/dim]")


def _print_steps(head: str, steps: Sequence[Step]) -> None:
    console.out.print(head, style="bold")
    for step in steps:
        console.out.print(f"# {step.why}", style="dim", markup=False, soft_wrap=True)
        for command in step.commands:
            console.out.print(command, markup=False, soft_wrap=True)


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if name.startswith("$") else "left")
    return table
