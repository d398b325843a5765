"""What every command shares: exit codes, error and JSON output."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from neuronfleet.serving.api.problems import SpecError

BAD_INPUT = 2
FAILURE = 1

_WIDE = 150
"""Columns where nobody watches a terminal: a log cuts no table."""


def _console(*, stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False, soft_wrap=stderr)
    if not made.is_terminal:
        made.width = _WIDE
    return made


out, err = _console(stderr=False), _console(stderr=True)


@contextmanager
def bad_input_exits() -> Iterator[None]:
    """Turn a wrong input into one clear error and exit status 2."""
    try:
        yield
    except SpecError as wrong:
        err.print(f"error: {wrong}", style="red", markup=False)
        raise typer.Exit(BAD_INPUT) from wrong


def fail(message: str) -> typer.Exit:
    """Say what failed; raise the result to exit with status 1."""
    err.print(f"error: {message}", style="red", markup=False)
    return typer.Exit(FAILURE)


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """A JSON document on standard output, and nothing else there."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")
