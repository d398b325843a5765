"""Findings as a person reads them, and as JSON."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from neuronfleet.serving.controller.plugin import console
from neuronfleet.serving.controller.plugin.doctor.findings import Finding, Level, worst

_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def show(namespace: str, name: str, findings: list[Finding], out: Console) -> None:
    """Print them in their order, each with what to do, and a count at the end."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for one in findings:
        grid.add_row(Text(str(one.level), style=_STYLES[one.level]), one.check, one.says)
        if one.do:
            grid.add_row("", "", Text(f"-> {one.do}", style="dim"))
    console.put(out, grid)
    counts = {level: sum(one.level is level for one in findings) for level in Level}
    text = ", ".join(f"{count} {level}" for level, count in counts.items())
    out.print(f"{namespace}/{name}: {text}", style=_STYLES[worst(findings)])


def document(namespace: str, name: str, findings: list[Finding]) -> dict[str, Any]:
    """The JSON that docs/schemas/kubectl-doctor.json describes."""
    return {
        "namespace": namespace,
        "name": name,
        "worst": str(worst(findings)),
        "findings": [
            {"check": one.check, "level": str(one.level), "says": one.says, "do": one.do}
            for one in findings
        ],
    }
