"""When each instruction starts and ends: engines, queues, semaphores, transfers and bandwidth.

Events are taken in the order of time. Every engine and every DMA queue runs its own instructions
in program order; a waiting instruction starts `dependent_us` after the last that it waits for. A
transfer pays `dma_us`, then streams at no more than `dma_stream_gb_per_s` and no earlier than its
turn in the core's share of device memory allows: a rank's bandwidth is divided equally among
the cores that were launched, and a core's transfers take theirs in program order. A load takes it
when it is ready; a store's is set aside where the store stands, so that one that waits for its
data holds no load up.

All orders are fixed by the program. The times are therefore maxima of sums, and laws hold that a
scheduler with choices breaks: no byte more makes anything faster, and no wait less slower.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.constants import Constants
from neuronfleet.kernels.cost.network import Node, meetings
from neuronfleet.kernels.cost.waits import waits
from neuronfleet.kernels.interpreter.trace import Instruction, Trace


class Cause(Enum):
    """What an instruction's start, or a transfer's end, was bound by."""

    START = "start"
    """Nothing: the program's beginning."""
    ENGINE = "engine"
    """The instruction before it in the same queue."""
    SEMAPHORE = "semaphore"
    """An instruction whose result or room it needs."""
    PEER = "peer"
    """Another core that comes to the same message later."""
    BANDWIDTH = "bandwidth"
    """Transfers before it that take the device memory's bandwidth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One instruction in simulated time, in microseconds."""

    node: Node
    queue: str
    """Engine, or DMA queue."""
    start: float
    end: float
    cause: Cause
    behind: Node | None
    """The instruction that it was bound by; None at the beginning."""
    turn: float | None
    """When its last byte passed the device memory; None where it takes no bandwidth there."""
    turn_behind: Node | None
    """The transfer before it at the memory, where that one held it up."""


@dataclass(slots=True)
class _Core:
    """What is fixed of a core before time runs."""

    queues: list[str]
    last: dict[str, int] = field(default_factory=dict)
    before: list[int | None] = field(default_factory=list)
    """Instruction before each one in its queue."""


@dataclass(slots=True)
class _Pool:
    """A core's share of device memory: until when it is taken, and by whom last."""

    until: float = 0.0
    taker: Node | None = None


class _Clock:
    """The event loop."""

    def __init__(self, traces: Sequence[Trace], constants: Constants) -> None:
        self.traces = traces
        self.constants = constants
        self.meet = meetings(traces)
        self.needs = [waits(t.instructions) for t in traces]
        self.cores = [_lay_out(t.instructions, constants) for t in traces]
        ranks = [t.rank for t in traces]
        # Bytes a microsecond are MB/s; GB/s are 1e3 of them.
        self.share = [constants.rank_gb_per_s * 1e3 / ranks.count(t.rank) for t in traces]
        self.pools = [_Pool() for _ in traces]
        self.events: dict[Node, Event] = {}
        self.missing: dict[Node, int] = {}
        self.after: dict[Node, list[Node]] = {}
        self.arrived: dict[Node, tuple[float, Cause, Node | None]] = {}
        self._connect()

    def run(self) -> dict[Node, Event]:
        ready = [(0.0, node) for node, count in self.missing.items() if not count]
        heapq.heapify(ready)
        while ready:
            _, node = heapq.heappop(ready)
            for done in self._settle(node):
                for then in self.after.get(done, ()):
                    self.missing[then] -= 1
                    if not self.missing[then]:
                        heapq.heappush(ready, (self._earliest(then)[0], then))
        if len(self.events) < len(self.missing):
            stuck = min(set(self.missing) - set(self.events))
            raise ValueError(f"core {stuck[0]}: instruction {stuck[1]} waits for what never comes")
        return self.events

    def _connect(self) -> None:
        """Count what each must know first: its waits, its queue and its turn at the memory."""
        for at, trace in enumerate(self.traces):
            taker: Node | None = None
            for one in trace.instructions:
                node = (at, one.index)
                known = {(at, n) for n in self.needs[at][one.index]}
                before = self.cores[at].before[one.index]
                if before is not None:
                    known.add((at, before))
                if takes_memory(one):
                    if taker is not None:
                        known.add(taker)
                    taker = node
                self.missing[node] = len(known)
                for first in known:
                    self.after.setdefault(first, []).append(node)

    def _earliest(self, node: Node) -> tuple[float, Cause, Node | None]:
        """When it can start by itself, and why not earlier."""
        at, index = node
        best: tuple[float, Cause, Node | None] = (0.0, Cause.START, None)
        before = self.cores[at].before[index]
        if before is not None:
            best = (self.events[at, before].end, Cause.ENGINE, (at, before))
        for n in self.needs[at][index]:
            free = self.events[at, n].end + self.constants.dependent_us
            if free > best[0]:
                best = (free, Cause.SEMAPHORE, (at, n))
        return best

    def _settle(self, node: Node) -> Sequence[Node]:
        """Give times to an instruction, or to all that meet once the last has come."""
        group = self.meet.get(node, (node,))
        self.arrived[node] = self._earliest(node)
        if any(one not in self.arrived for one in group):
            return ()
        latest = max(group, key=lambda one: (self.arrived[one][0], one))
        for one in group:
            start, cause, behind = self.arrived[one]
            if self.arrived[latest][0] > start:
                start, cause, behind = self.arrived[latest][0], Cause.PEER, latest
            self._time(one, start, cause, behind)
        return group

    def _time(self, node: Node, start: float, cause: Cause, behind: Node | None) -> None:
        at, index = node
        one = self.traces[at].instructions[index]
        end = start + held_us(one, self.constants)
        turn, taker = None, None
        if takes_memory(one):
            turn, taker = self._turn(node, one, start)
            if turn > end and taker is not None:
                cause, behind = Cause.BANDWIDTH, taker
            end = max(end, turn)
        self.events[node] = Event(
            node=node, queue=self.cores[at].queues[index], start=start, end=end, cause=cause,
            behind=behind, turn=turn, turn_behind=taker,
        )  # fmt: skip

    def _turn(self, node: Node, one: Instruction, start: float) -> tuple[float, Node | None]:
        """Take the memory's bandwidth; when the last byte passes, and behind whom."""
        pool = self.pools[node[0]]
        read, written = issue.hbm_bytes(one)
        arrives = start + self.constants.dma_us if read else 0.0
        taker = pool.taker if pool.until > arrives else None
        pool.until = max(pool.until, arrives) + (read + written) / self.share[node[0]]
        pool.taker = node
        return pool.until, taker


def simulate(traces: Sequence[Trace], constants: Constants) -> dict[Node, Event]:
    """Every instruction's times, by position of its core among the traces and its own in it.

    Raises:
        ValueError: For an engine that the model does not know, or a message nobody answers.
    """
    return _Clock(traces, constants).run()


def held_us(one: Instruction, constants: Constants) -> float:
    """Microseconds from start to end where nothing else wants the memory."""
    if one.opcode in issue.COLLECTIVES:
        return constants.collective_us
    if one.opcode == "core_barrier":
        return constants.dependent_us
    if not _transfers(one):
        return issue.issue_us(one, constants)
    # Bytes / (GB/s) are nanoseconds.
    return constants.dma_us + issue.moved_bytes(one) / constants.dma_stream_gb_per_s / 1e3


def _transfers(one: Instruction) -> bool:
    return one.engine == "dma" or one.opcode == "sendrecv"


def takes_memory(one: Instruction) -> bool:
    """Whether it competes for the device memory's bandwidth.

    Collectives cost a flat time, and so do copies within SBUF.
    """
    return one.engine == "dma" and one.opcode not in issue.COLLECTIVES and any(issue.hbm_bytes(one))


def _lay_out(program: Sequence[Instruction], constants: Constants) -> _Core:
    """Deal transfers to the DMA queues in turn, collectives to a queue of their own."""
    core = _Core(queues=[])
    transfers = 0
    for one in program:
        queue = one.engine
        if one.opcode in issue.COLLECTIVES:
            queue = "collective"
        elif queue == "dma":
            queue = f"dma {transfers % constants.dma_queues}"
            transfers += 1
        core.queues.append(queue)
        core.before.append(core.last.get(queue))
        core.last[queue] = one.index
    return core
