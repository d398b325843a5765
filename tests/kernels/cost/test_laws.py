"""Laws that hold for any program, checked on random ones."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.model import takes_memory
from neuronfleet.kernels.cost.timeline import Timeline, timeline
from neuronfleet.kernels.interpreter.trace import Instruction, Operand, Trace
from tests.kernels.cost.programs import HBM, TRN2, Program, operand

SLACK = 1e-9
KINDS = ["load", "store", "activation", "copy", "matmul", "own", "exchange"]


@st.composite
def instructions(draw: st.DrawFn, program: Program) -> None:
    columns = draw(st.sampled_from([1, 40, 300, 2000, 9000]))
    target, source = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    match draw(st.sampled_from(KINDS)):
        case "load":
            program.load(target, columns)
        case "store":
            program.store(source, columns, target=-10 - target)
        case "activation":
            program.activation(target, source, columns)
        case "copy":
            program.copy(target, source, columns)
        case "matmul":
            program.matmul(100 + target, source, target, columns)
        case "own":
            reads = (operand("src", source, (128, columns)),)
            program.add("dma", "dma_copy", (operand("dst", target, (128, columns)),), reads)
        case _:
            into = (operand("dst", -50, (8, columns), region=HBM),)
            program.add("dma", "all_reduce", into, (operand("src", -51, (8, columns), region=HBM),))


@st.composite
def launches(draw: st.DrawFn) -> list[Trace]:
    cores = [Program(core=n) for n in range(draw(st.integers(1, 2)))]
    for program in cores:
        for _ in range(draw(st.integers(1, 30))):
            draw(instructions(program))
    for step in range(draw(st.integers(0, 2))):
        for program in cores:
            program.add("gpsimd", "core_barrier", message=f"core_barrier#{step}")
            draw(instructions(program))
    return [program.trace for program in cores]


def change(traces: list[Trace], core: int, index: int, new: Instruction) -> list[Trace]:
    found = [Trace(t.rank, t.core, list(t.instructions)) for t in traces]
    found[core].instructions[index] = new
    return found


def pick(data: st.DataObject, traces: list[Trace]) -> tuple[int, int, Instruction]:
    core = data.draw(st.integers(0, len(traces) - 1))
    index = data.draw(st.integers(0, len(traces[core].instructions) - 1))
    return core, index, traces[core].instructions[index]


def wider(one: Operand, factor: int) -> Operand:
    """As many bytes more; its box is kept, so that the waits are."""
    shape = (*one.shape[:-1], one.shape[-1] * factor)
    return replace(one, shape=shape, nbytes=one.nbytes * factor)


def apart(one: Operand, number: int) -> Operand:
    """Moved to an allocation that nobody else has."""
    return replace(one, storage=-10_000 - number)


@settings(max_examples=80, deadline=None)
@given(launches(), st.data())
def test_more_bytes_are_never_faster(traces: list[Trace], data: st.DataObject) -> None:
    core, index, one = pick(data, traces)
    factor = data.draw(st.integers(2, 9))
    more = replace(
        one,
        writes=tuple(wider(o, factor) for o in one.writes),
        reads=tuple(wider(o, factor) for o in one.reads),
    )
    # A covering write loses its cover with its box, and may only add waits by that.
    slower = timeline(change(traces, core, index, more), TRN2)

    assert slower.makespan_us >= timeline(traces, TRN2).makespan_us - SLACK


@settings(max_examples=80, deadline=None)
@given(launches(), st.data())
def test_removing_a_dependency_is_never_slower(traces: list[Trace], data: st.DataObject) -> None:
    core, index, one = pick(data, traces)
    free = replace(one, reads=tuple(apart(o, n) for n, o in enumerate(one.reads)))
    freed = timeline(change(traces, core, index, free), TRN2)

    assert freed.makespan_us <= timeline(traces, TRN2).makespan_us + SLACK


@settings(max_examples=40, deadline=None)
@given(launches())
def test_time_is_no_less_than_roofline_and_every_engine(traces: list[Trace]) -> None:
    line = timeline(traces, TRN2)

    assert line.makespan_us >= line.roofline_us - SLACK
    for core in range(len(traces)):
        assert all(busy <= line.makespan_us + SLACK for busy in line.busy_us(core).values())


@settings(max_examples=40, deadline=None)
@given(launches())
def test_the_critical_path_is_the_makespan_without_gap(traces: list[Trace]) -> None:
    line = timeline(traces, TRN2)
    path = line.critical_path()

    assert path[0].start == 0.0
    assert path[-1].end == line.makespan_us
    for span, then in pairwise(path):
        assert span.end == pytest.approx(then.start)
    assert sum(line.critical_us().values()) == pytest.approx(line.makespan_us)


@settings(max_examples=40, deadline=None)
@given(launches())
def test_every_instruction_runs_once_and_no_queue_two_at_once(traces: list[Trace]) -> None:
    line = timeline(traces, TRN2)

    assert set(line.events) == {
        (core, one.index) for core, trace in enumerate(traces) for one in trace.instructions
    }
    for core in range(len(traces)):
        queues: dict[str, float] = {}
        for node, event in sorted(line.events.items()):
            if node[0] == core:
                assert event.start >= queues.get(event.queue, 0.0) - SLACK
                queues[event.queue] = event.end


@settings(max_examples=40, deadline=None)
@given(launches())
def test_no_more_bytes_pass_by_any_moment_than_the_memory_carries(traces: list[Trace]) -> None:
    line = timeline(traces, TRN2)
    done = sorted(
        (event.end, sum(issue.hbm_bytes(one)))
        for event in line.events.values()
        if takes_memory(one := traces[event.node[0]].instructions[event.node[1]])
    )
    passed = 0.0

    for end, nbytes in done:
        passed += nbytes
        assert passed <= end * TRN2.rank_gb_per_s * 1e3 * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(launches())
def test_the_same_traces_give_the_same_timeline(traces: list[Trace]) -> None:
    one, two = timeline(traces, TRN2), timeline(traces, TRN2)

    assert dict(one.events) == dict(two.events)
    assert _figures(one) == _figures(two)


@settings(max_examples=20, deadline=None)
@given(launches())
def test_slower_collectives_are_never_faster(traces: list[Trace]) -> None:
    line = timeline(traces, TRN2)

    assert line.slow_us >= line.makespan_us - SLACK


def _figures(line: Timeline) -> list[object]:
    return [line.makespan_us, line.slow_us, line.roofline_us, line.critical_path()]
