"""The order that a compiler gives a candidate: the older language leaves it to one.

Loops of independent iterations are written one after another and run overlapped. What stands in for
the compiler is list scheduling: an engine that is free takes the earliest instruction of a window
whose operands are there. The cost model then runs that order as it runs any.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.constants import Constants
from neuronfleet.kernels.cost.model import held_us
from neuronfleet.kernels.cost.waits import waits
from neuronfleet.kernels.interpreter.trace import Instruction, Trace


def compiled(trace: Trace, constants: Constants, window: int) -> Trace:
    """The same instructions in the order that a list scheduler starts them."""
    program = trace.instructions
    # On engines of their own all orders of memory count, also those one engine keeps by itself.
    needs = waits([replace(one, engine=f"{one.index}") for one in program])
    starts = _schedule(program, needs, constants, window)
    order = sorted(range(len(program)), key=lambda n: (starts[n], n))
    return Trace(
        trace.rank, trace.core, [replace(program[n], index=at) for at, n in enumerate(order)]
    )


@dataclass(slots=True)
class _Engine:
    """What an engine may take: instructions that are ready by now, and those that will be."""

    free: float = 0.0
    now: list[int] = field(default_factory=list)
    later: list[tuple[float, int]] = field(default_factory=list)

    @property
    def next(self) -> float:
        """When it can start something; infinite where nothing waits."""
        if self.now:
            return self.free
        return max(self.free, self.later[0][0]) if self.later else math.inf

    def take(self) -> tuple[float, int]:
        """(start, instruction): the earliest in the program of those that are ready."""
        start = self.next
        while self.later and self.later[0][0] <= start:
            heapq.heappush(self.now, heapq.heappop(self.later)[1])
        return start, heapq.heappop(self.now)


def _schedule(
    program: Sequence[Instruction],
    needs: Sequence[tuple[int, ...]],
    constants: Constants,
    window: int,
) -> list[float]:
    missing = [len(need) for need in needs]
    after: list[list[int]] = [[] for _ in program]
    for at, need in enumerate(needs):
        for first in need:
            after[first].append(at)
    ready, starts = [0.0] * len(program), [math.inf] * len(program)
    engines = {one.engine: _Engine() for one in program}
    oldest = opened = 0
    while oldest < len(program):
        while opened < min(oldest + window, len(program)):
            if not missing[opened]:
                heapq.heappush(engines[program[opened].engine].later, (ready[opened], opened))
            opened += 1
        name = min(engines, key=lambda e: engines[e].next)
        start, at = engines[name].take()
        one = program[at]
        held = held_us(one, constants)
        starts[at] = start
        # Transfers overlap: what they hold is the memory's bandwidth.
        memory = sum(issue.hbm_bytes(one)) / constants.rank_gb_per_s / 1e3
        engines[name].free = start + (memory if name == "dma" else held)
        for then in after[at]:
            ready[then] = max(ready[then], start + held + constants.dependent_us)
            missing[then] -= 1
            if not missing[then] and then < opened:
                heapq.heappush(engines[program[then].engine].later, (ready[then], then))
        while oldest < len(program) and starts[oldest] < math.inf:
            oldest += 1
    return starts
