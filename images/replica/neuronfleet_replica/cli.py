"""The command neuronfleet-replica: serve, canary, drain."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from neuronfleet_replica.fields import SettingsError
from neuronfleet_replica.settings import VARIABLE, from_environment

WELL, SICK, WRONG_SETTINGS = 0, 1, 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(prog="neuronfleet-replica", description=__doc__)
    commands = line.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help=f"become vLLM, as {VARIABLE} says")
    canary = commands.add_parser("canary", help="0 if the replica is well, 1 if not")
    canary.add_argument("--timeout", type=_seconds, default=8.0, help="seconds for all of it")
    drain = commands.add_parser("drain", help="wait until no sequence is left; 0 always")
    drain.add_argument("--timeout", type=_seconds, required=True, help="seconds at most")
    drain.add_argument("--settle", type=_seconds, default=3.0, help="seconds at least")
    return line


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}, must be seconds in [0, inf)")
    return value


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one subcommand; the exit status."""
    options = parser().parse_args(arguments)
    environ = os.environ if environ is None else environ
    try:
        match options.command:
            case "serve":
                return _serve(environ)
            case "canary":
                return _canary(environ, options.timeout)
            case _:
                return _drain(environ, options.timeout, options.settle)
    except SettingsError as error:
        print(f"neuronfleet-replica: {error}", file=sys.stderr)
        return WRONG_SETTINGS


# Each subcommand imports its own: a probe runs every few seconds and needs no more than its part.
def _serve(environ: Mapping[str, str]) -> int:
    from neuronfleet_replica import serve, snapshot

    try:
        serve.serve(environ)
    except (snapshot.SnapshotError, OSError) as error:
        print(f"neuronfleet-replica: {error}", file=sys.stderr)
    return SICK


def _canary(environ: Mapping[str, str], timeout_s: float) -> int:
    from neuronfleet_replica import canary

    try:
        verdict = canary.check(from_environment(environ), timeout_s)
    except OSError as error:  # of its own files: /tmp must be writable
        print(f"neuronfleet-replica: {error}", file=sys.stderr)
        return SICK
    print(verdict.reason, file=sys.stdout if verdict.well else sys.stderr)
    return WELL if verdict.well else SICK


def _drain(environ: Mapping[str, str], timeout_s: float, settle_s: float) -> int:
    """A drain that fails would cut the wait short and tell nobody: its status is 0 always."""
    from neuronfleet_replica import drain

    try:
        port = from_environment(environ).port
    except SettingsError as error:
        print(f"neuronfleet-replica: {error}", file=sys.stderr)
        return WELL
    print(drain.drain(port, timeout_s, settle_s))
    return WELL
