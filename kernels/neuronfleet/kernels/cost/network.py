"""Which instructions of several cores meet: messages, barriers and collectives."""

from collections.abc import Sequence

from neuronfleet.kernels.cost.issue import COLLECTIVES
from neuronfleet.kernels.interpreter.trace import Instruction, Trace

Node = tuple[int, int]
"""Position of a trace among those given, and of an instruction in it."""


def meetings(traces: Sequence[Trace]) -> dict[Node, tuple[Node, ...]]:
    """For each instruction with a message key, all that start together with it, itself included.

    A key is met by the cores of one rank; a collective's by the ranks, core by core. Cores that
    were not given are taken to be as fast as those that were.
    """
    groups: dict[tuple[str, int], list[Node]] = {}
    for at, trace in enumerate(traces):
        for one in trace.instructions:
            key = message(one)
            if key:
                side = trace.core if one.opcode in COLLECTIVES else trace.rank
                groups.setdefault((key, side), []).append((at, one.index))
    return {node: tuple(group) for group in groups.values() for node in group}


def message(one: Instruction) -> str:
    """Its key, empty where it works alone."""
    return next((str(value) for name, value in one.details if name == "message"), "")
