"""`neuronfleet infra preflight`: what would fail, asked of the account before anything is made."""

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from neuronfleet.cli import console
from neuronfleet.infra.commands import rewrite
from neuronfleet.infra.commands.finding import Finding, Verdict
from neuronfleet.infra.settings import parse
from neuronfleet.infra.settings.model import Settings

if TYPE_CHECKING:
    from neuronfleet.infra.commands.preflight import Report

EXAMPLE = "Example: `neuronfleet infra preflight infra.yaml --write`"
_STYLES = {Verdict.FINE: "green", Verdict.FAILS: "red", Verdict.UNKNOWN: "yellow"}
_MOST_HOURS = 4368
"""182 days: the longest block on sale (EC2 User Guide, Capacity Blocks)."""


def command(
    file: Annotated[Path, typer.Argument(help="Settings file of the infrastructure.")],
    write: Annotated[
        bool, typer.Option("--write", help="Put the account's quotas into the file, only those.")
    ] = False,
    hours: Annotated[
        int,
        typer.Option(
            min=24, max=_MOST_HOURS, help="Length of capacity blocks to look for, where none is."
        ),
    ] = 168,
    profile: Annotated[str | None, typer.Option(help="Profile of the AWS configuration.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Ask AWS for quotas, offerings, images and reservations; read only.

    Exit status 0: fine; 1: something would fail or is unknown; 2: the settings are wrong.
    """
    with console.bad_input_exits():
        settings = parse.load(file)
    report = _ask(settings, profile, hours)
    if json:
        from neuronfleet.infra.commands.preflight import document

        console.print_json(document(report, settings))
    else:
        _print(report, settings)
    if write:
        _write(file, report)
    if not report.true:
        raise typer.Exit(console.BAD_INPUT)
    if not report.is_fine:
        raise typer.Exit(console.FAILURE)


def _ask(settings: Settings, profile: str | None, hours: int) -> "Report":
    """The report; boto3 is imported here alone, so that no other command needs it."""
    if find_spec("boto3") is None:
        raise console.fail(
            "preflight needs boto3, which this environment lacks: `make infra` builds one that "
            "has it, then .venv-infra/bin/neuronfleet infra preflight"
        )
    from botocore.exceptions import BotoCoreError

    from neuronfleet.infra.commands import preflight

    try:
        aws = preflight.session(settings.region, profile)
    except BotoCoreError as wrong:
        raise console.fail(f"--profile = {profile}: {wrong}") from wrong
    return preflight.preflight(settings, aws, datetime.now(UTC), preflight.sold(hours))


def _write(file: Path, report: "Report") -> None:
    with console.bad_input_exits():
        changed = rewrite.write(file, report.quotas)
    shown = ", ".join(f"{code} {vcpus}" for code, vcpus in report.quotas.items())
    if not report.quotas:
        console.err.print(f"{file}: no quota could be found out, nothing written", markup=False)
    else:
        said = "wrote quotas" if changed else "has these quotas already"
        console.err.print(f"{file}: {said}: {shown}", markup=False)


def _print(report: "Report", settings: Settings) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "what", "which", "found"):
        table.add_column(name, overflow="fold")
    for one in sorted(report.findings, key=_order):
        cells = (escape(cell) for cell in (one.verdict, one.what, one.subject, one.said))
        table.add_row(*cells, style=_style(one))
    console.out.print(table)
    counts = [
        f"{report.count(verdict)} {verdict}"
        for verdict in (Verdict.FINE, Verdict.FAILS, Verdict.UNKNOWN)
    ]
    console.out.print(f"\n{settings.name} in {settings.region}: {', '.join(counts)}", markup=False)


def _order(one: Finding) -> int:
    """What would fail first, then what is unknown."""
    return (Verdict.FAILS, Verdict.UNKNOWN, Verdict.NOTE, Verdict.FINE).index(one.verdict)


def _style(one: Finding) -> str:
    return _STYLES.get(one.verdict, "")
