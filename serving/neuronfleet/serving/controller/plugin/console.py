"""Where the plugin writes, and how it ends: 1 is a failure, 2 a wrong use."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.kube import KubeError
from neuronfleet.serving.controller.source import SourceError

BAD_INPUT = 2
FAILURE = 1
_PIPED = 10_000
"""Columns where nobody watches: a pipe cuts and wraps nothing."""


def opened(*, stderr: bool = False) -> Console:
    """A console on the present standard output; colours by rich's rules (a tty, NO_COLOR)."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=stderr, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPED
    return made


def table(*names: str, right: Sequence[str] = ()) -> Table:
    """A table as kubectl's: no lines, two blanks between columns, names above.

    Where it does not fit, VARIANT alone is folded: no figure is ever cut before it.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name != "VARIANT",
            overflow="fold" if name == "VARIANT" else "ellipsis",
        )
    return made


def put(out: Console, made: Table | Padding) -> None:
    """Print what rich fills with blanks up to its width; a pipe gets none of them."""
    if out.is_terminal:
        out.print(made)
        return
    with out.capture() as taken:
        out.print(made)
    for line in taken.get().splitlines():
        out.print(line.rstrip(), soft_wrap=True)


def needs(made: Table, console: Console) -> int:
    """Columns that a table takes where nothing cuts it."""
    return console.measure(made, options=console.options.update(max_width=_PIPED)).maximum


@contextmanager
def errors_exit() -> Iterator[None]:
    """Turn what went wrong into one clear line and an exit status."""
    try:
        yield
    except SpecError as wrong:
        _say(str(wrong))
        raise typer.Exit(BAD_INPUT) from wrong
    except (KubeError, SourceError) as wrong:
        _say(str(wrong))
        raise typer.Exit(FAILURE) from wrong


def _say(text: str) -> None:
    opened(stderr=True).print(f"error: {text}", style="red")


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """A JSON document on standard output, and nothing else there."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")
