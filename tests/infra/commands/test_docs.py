"""docs/infra.md against what it documents: figures, keys, commands and files."""

import re
from pathlib import Path

from typer.main import get_command

from neuronfleet.cli import infra
from neuronfleet.infra.commands.cost import cost
from neuronfleet.infra.settings import parse
from neuronfleet.serving.api import prices

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/infra.md").read_text()
EXAMPLE = ROOT / "examples/infra/us-east-2.yaml"


def table() -> str:
    """The costs of the example by stack, then by pool, as the page shows them."""
    bill = cost(parse.load(EXAMPLE), prices.newest())
    rows = ["| part | idle | max |", "|---|---|---|"]
    for stack in bill.stacks():
        short = stack.removeprefix("neuronfleet-")
        rows.append(f"| {short} | {bill.idle(stack=stack)} | {bill.most(stack=stack)} |")
    for pool in bill.pools():
        rows.append(f"| pool {pool} | {bill.idle(pool=pool)} | {bill.most(pool=pool)} |")
    rows.append(f"| all | {bill.idle()} | {bill.most()} |")
    return "\n".join(rows)


def test_the_costs_shown_are_those_of_the_command() -> None:
    assert table() in TEXT


def test_every_key_of_the_settings_is_in_the_reference() -> None:
    source = Path(parse.__file__).read_text()
    keys = set(re.findall(r'(?:fields|section)[,.]\s*(?:\w+\()?"(\w+)"', source))
    reference = TEXT.partition("## Settings")[2].partition("## When")[0]
    words = set(re.findall(r"\w+", reference))

    assert len(keys) > 50
    assert keys <= words


def test_every_command_shown_is_one_and_every_one_is_shown() -> None:
    shown = set(
        re.findall(r"infra ([a-z]+(?:-[a-z]+)?)\b(?= (?:infra|fleet)\.yaml| FILE| FLEET)", TEXT)
    )
    group = get_command(infra.app)

    assert shown == set(getattr(group, "commands", ()))


def test_every_link_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in TEXT.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        if target.startswith("#"):
            assert target[1:] in headings, target
        else:
            assert (ROOT / "docs" / target).exists(), target
