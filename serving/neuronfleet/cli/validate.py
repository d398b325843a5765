"""`neuronfleet validate`: is a file what it should be, and if not, everything that is wrong."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.local import scenario

EXAMPLE = "Example: `neuronfleet validate examples/llama-3.1-8b.yaml`"


def command(
    file: Annotated[Path, typer.Argument(help="YAML file of ServingFleet documents.")],
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Check a fleet file and report every problem at once."""
    try:
        manifest = fleet.load(file, other_kinds=(scenario.KIND,))
        scenario.read(manifest)
    except SpecError as wrong:
        if json:
            problems = [
                {"path": p.path, "value": str(p.value), "allowed": p.allowed}
                for p in wrong.problems
            ]
            console.print_json(
                {"file": str(file), "valid": False, "error": str(wrong), "problems": problems}
            )
            raise typer.Exit(console.BAD_INPUT) from wrong
        with console.bad_input_exits():
            raise
    if json:
        console.print_json(
            {
                "file": str(file),
                "valid": True,
                "problems": [],
                "fleets": [_fleet(one) for one in manifest.fleets],
            }
        )
        return
    table = Table("fleet", "model", "variants", "replicas", "traffic", box=None, pad_edge=False)
    for one in manifest.fleets:
        bounds = one.bounds
        table.add_row(
            one.name,
            one.model.name,
            ", ".join(variant.name for variant in one.variants),
            f"{bounds.min_replicas} to {bounds.max_replicas}",
            str(one.traffic),
        )
    console.out.print(table)
    console.out.print(f"{file} is valid.")


def _fleet(one: fleet.ServingFleet) -> dict[str, object]:
    return {
        "name": one.name,
        "model": one.model.name,
        "variants": [variant.name for variant in one.variants],
        "min_replicas": one.bounds.min_replicas,
        "max_replicas": one.bounds.max_replicas,
        "traffic": str(one.traffic),
        "mode": str(one.mode),
    }
