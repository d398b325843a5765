"""Start emulated replicas from a settings file: python -m neuronfleet.serving.emulator."""

import argparse
import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvloop

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.serve import ReplicaSettings, from_mapping, run

_PR_SET_PDEATHSIG = 1


def parser() -> argparse.ArgumentParser:
    """The command line; what it gives overrides the file."""
    line = argparse.ArgumentParser(prog="neuronfleet.serving.emulator", description=__doc__)
    line.add_argument(
        "--settings", type=Path, required=True, help="JSON: one replica, or a list of them"
    )
    line.add_argument("--port", type=int, help="API port; 0 takes a free one")
    line.add_argument("--state-port", type=int, help="port that answers from the boot's start")
    line.add_argument("--time-scale", type=float, help="emulated seconds a real second")
    line.add_argument("--stream-interval", type=int, help="tokens a chunk after the first")
    line.add_argument("--void-above-ms", type=float, help="emulated p99 lateness that voids a run")
    line.add_argument("--fault", action="append", type=Fault, metavar="MODE", help=", ".join(Fault))
    line.add_argument(
        "--die-with-parent", action="store_true", help="end when the starting process does"
    )
    return line


def settings_of(options: argparse.Namespace) -> list[ReplicaSettings]:
    """The replicas to run.

    Raises:
        SpecError: the file or an option is wrong.
    """
    try:
        raw = json.loads(options.settings.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise SpecError(f"settings = {options.settings}, must be a JSON file: {error}") from error
    names = ("port", "state_port", "time_scale", "stream_interval", "void_above_ms")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.fault:
        given["faults"] = tuple(options.fault)
    replicas = [from_mapping(one) for one in (raw if isinstance(raw, list) else [raw])]
    if not replicas:
        raise SpecError("settings = [], must be in [1 replica, ...]")
    return [replace(one, **given) for one in replicas]


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process, undrained, when `parent`, which started it, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)  # it ended before the kernel was told


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until a signal comes."""
    parent = os.getppid()
    options = parser().parse_args(arguments)
    if options.die_with_parent:
        die_with_parent(parent)
    try:
        replicas = settings_of(options)
    except SpecError as error:
        sys.exit(f"neuronfleet.serving.emulator: {error}")
    uvloop.run(run(replicas))


if __name__ == "__main__":
    main()
