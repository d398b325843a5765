"""A simulated run as figures: makespan, busy engines, critical path, roofline, memory peaks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.constants import Constants
from neuronfleet.kernels.cost.model import Cause, Event, simulate, takes_memory
from neuronfleet.kernels.cost.network import Node
from neuronfleet.kernels.interpreter.launch import Run
from neuronfleet.kernels.interpreter.liveness import Peak
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of the critical path."""

    node: Node
    start: float
    end: float
    """Microseconds; stretches follow each other without a gap from 0 to the makespan."""
    what: str
    """Engine, `dma`, `collective`, `bandwidth` (other transfers at the memory) or `wait` (for a
    semaphore)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What a run would take. Simulated: no device was asked."""

    constants: Constants
    traces: tuple[Trace, ...]
    events: Mapping[Node, Event]
    peaks: tuple[Peak, ...]
    """Memory peaks of each core; empty where only traces were given."""
    slow_us: float
    """The makespan with the pessimist's collectives."""

    @property
    def makespan_us(self) -> float:
        """End of the last instruction of any core."""
        return max((e.end for e in self.events.values()), default=0.0)

    @property
    def memory_us(self) -> float:
        """Time of the busiest rank's device memory traffic at full bandwidth."""
        by_rank: dict[int, float] = {}
        for trace in self.traces:
            traffic = sum(sum(issue.hbm_bytes(o)) for o in trace.instructions if takes_memory(o))
            by_rank[trace.rank] = by_rank.get(trace.rank, 0.0) + traffic
        return max(by_rank.values(), default=0.0) / self.constants.rank_gb_per_s / 1e3

    @property
    def pe_us(self) -> float:
        """Passes of the busiest core's PE, without a pause between them."""
        return max((self.busy_us(at).get("tensor", 0.0) for at in self._cores), default=0.0)

    @property
    def roofline_us(self) -> float:
        """The least time of this trace: memory traffic or PE passes, whichever is more."""
        return max(self.memory_us, self.pe_us)

    @property
    def roofline_share(self) -> float | None:
        """Roofline over makespan, in (0, 1]; None for an empty run."""
        return self.roofline_us / self.makespan_us if self.makespan_us else None

    @property
    def _cores(self) -> range:
        return range(len(self.traces))

    def busy_us(self, core: int) -> dict[str, float]:
        """Microseconds in which each engine of a core runs something; `dma`: any transfer."""
        spans: dict[str, list[tuple[float, float]]] = {}
        for event in self.events.values():
            if event.node[0] == core:
                spans.setdefault(event.queue.split(" ")[0], []).append((event.start, event.end))
        return {engine: _union(found) for engine, found in sorted(spans.items())}

    def peak(self, region: MemoryRegion) -> Peak | None:
        """The fullest moment of SBUF or PSUM on any core; None where peaks are unknown."""
        found = [p for p in self.peaks if p.region is region]
        return max(found, key=lambda p: p.nbytes, default=None)

    def critical_path(self) -> tuple[Span, ...]:
        """What the makespan consists of, from 0 to its end."""
        at = max(self.events.values(), key=lambda e: (e.end, e.node), default=None)
        until = at.end if at is not None else 0.0
        found: list[Span] = []
        while at is not None:
            if at.cause is Cause.BANDWIDTH:
                at, until = self._queue_at_memory(at, found)
                if at is None:
                    break
            _add(found, at, at.start, until, at.queue.split(" ")[0])
            until = at.start
            behind = self.events[at.behind] if at.behind is not None else None
            if behind is not None and at.cause is not Cause.PEER:
                _add(found, at, behind.end, until, "wait")
                until = behind.end
            at = behind
        return tuple(reversed(found))

    def _queue_at_memory(self, last: Event, found: list[Span]) -> tuple[Event | None, float]:
        """Walk back along the transfers that took the bandwidth, to the first that found it free.

        Returns:
            That transfer, and when its bytes had passed; None where that one's turn was set aside
            from the program's beginning.
        """
        while last.turn_behind is not None and last.turn is not None:
            before = self.events[last.turn_behind]
            _add(found, last, before.turn or 0.0, last.turn, "bandwidth")
            last = before
        turn = last.turn or 0.0
        if not issue.hbm_bytes(self._instruction(last.node))[0]:
            _add(found, last, 0.0, turn, "bandwidth")
            return None, 0.0
        return last, turn

    def _instruction(self, node: Node) -> Instruction:
        return self.traces[node[0]].instructions[node[1]]

    def critical_us(self) -> dict[str, float]:
        """The critical path's microseconds by what they are spent on, largest first."""
        spent: dict[str, float] = {}
        for span in self.critical_path():
            spent[span.what] = spent.get(span.what, 0.0) + span.end - span.start
        return dict(sorted(spent.items(), key=lambda item: (-item[1], item[0])))


def timeline(traces: Sequence[Trace], constants: Constants, peaks: Sequence[Peak] = ()) -> Timeline:
    """Simulate the cores of one launch.

    Raises:
        ValueError: As `simulate` does.
    """
    slow = simulate(traces, constants.with_slow_collectives())
    return Timeline(
        constants=constants,
        traces=tuple(traces),
        events=simulate(traces, constants),
        peaks=tuple(peaks),
        slow_us=max((e.end for e in slow.values()), default=0.0),
    )


def of_run(run: Run, constants: Constants) -> Timeline:
    """The timeline of an interpreted run, with its memory peaks."""
    return timeline(run.traces, constants, run.peaks)


def _add(found: list[Span], event: Event, start: float, end: float, what: str) -> None:
    if end > start:
        found.append(Span(node=event.node, start=start, end=end, what=what))


def _union(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, until = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
