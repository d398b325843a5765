"""`neuronfleet infra init`: the settings file that a fleet's plan needs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from neuronfleet.cli import console
from neuronfleet.cli.infra_plan import Left, infra_plan
from neuronfleet.infra.commands.init import init
from neuronfleet.infra.settings import forms
from neuronfleet.infra.settings.rules.access import PLACEHOLDER
from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.local import scenario

EXAMPLE = (
    "Example: `neuronfleet infra init examples/cluster.yaml -o infra.yaml "
    "--admin role/ClusterAdmin`"
)
_TO_DO = "TO DO"
_GROUP = "node-group"


def command(
    file: Annotated[Path, typer.Argument(help="YAML file of ServingFleet documents.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; standard output if none.")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="Region; by default the one with most zones for the types.")
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(help="Variant to deploy, several times for several; the cheapest if none."),
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(help="Who administers the cluster, as role/ClusterAdmin.")
    ] = None,
    name: Annotated[str, typer.Option(help="Prefix of the stacks.")] = "neuronfleet",
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    price_file: Annotated[
        Path | None, typer.Option("--prices", help="Another price catalog (JSON).")
    ] = None,
) -> None:
    """Plan each fleet of a file and write the infrastructure that the plans need."""
    with console.bad_input_exits():
        _check(output, admin or [], name, force=force)
        manifest = fleet.load(file, other_kinds=(scenario.KIND,))
        catalog = prices.newest() if price_file is None else prices.from_file(price_file)
        plan, left = infra_plan(
            file,
            manifest,
            catalog,
            name=name,
            region=region,
            chosen=variant or (),
            now=datetime.now(UTC),
        )
        text = with_admins(init(plan), admin or [])
    _write(text, output)
    _say(text, left, output)


def with_admins(text: str, admins: Sequence[str]) -> str:
    """The settings with these administrators in the place of the one to be filled in."""
    if not admins:
        return text
    lines = []
    for line in text.splitlines():
        before, found, _ = line.partition(f"- {PLACEHOLDER}")
        lines += [f"{before}- {one}" for one in admins] if found else [line]
    return "\n".join(lines) + "\n"


def _check(output: Path | None, admins: Sequence[str], name: str, *, force: bool) -> None:
    """What is wrong with the options, before anything is planned."""
    if not forms.fits(name, forms.NAME):
        raise SpecError(f"--name = {name}, {forms.NAME.allowed}")
    for admin in admins:
        if not forms.fits(admin, forms.PRINCIPAL):
            raise SpecError(f"--admin = {admin}, {forms.PRINCIPAL.allowed}")
    if output is not None and output.exists() and not force:
        raise SpecError(f"--output = {output}, exists; must be a new file, or --force given")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as wrong:
        raise console.fail(f"{output}: {wrong.strerror}, must be a writable file") from wrong


def _say(text: str, left: Sequence[Left], output: Path | None) -> None:
    """What was left out and why, and what is left to a person."""
    for one in left:
        console.err.print(
            f"left out: variant {one.variant} of {one.fleet}: {one.why}", markup=False
        )
    to_do = sum(_TO_DO in line for line in text.splitlines())
    if output is None:
        return
    console.err.print(f"wrote {output}", markup=False)
    if to_do:
        console.err.print(f"{to_do} lines say TO DO: what only you can say", markup=False)
    groups = [pool["name"] for pool in yaml.safe_load(text)["pools"] if pool["owner"] == _GROUP]
    starting = f" -c starting={','.join(groups)}    # the first time" if groups else ""
    console.err.print(
        f"next: neuronfleet infra preflight {output} --write\n"
        f"      npx cdk deploy --all -c settings={output}{starting}",
        markup=False,
    )
