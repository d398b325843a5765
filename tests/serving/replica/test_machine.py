"""The step machine: serial prefill, steps of the whole batch, slots, and no time made up."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.replica import replay
from neuronfleet.serving.replica.machine import Done, StepMachine, Work
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel

TIMING = TimingModel(
    prefill=Buckets(tokens=(256, 2048), ms=(100.0, 400.0)),
    host_ms=10.0,
    decode=Buckets(tokens=(256, 2048), ms=(50.0, 70.0)),
    decode_ms_per_slot=1.0,
    first_ms=500.0,
    basis=Basis.MEASURED,
    source="test",
)


def machine(slots: int = 2) -> StepMachine:
    return StepMachine(TIMING, slots, warm=True)


def run(one: StepMachine) -> list[Done]:
    done = []
    while one.next_ms() is not None:
        done.append(one.finish())
    return done


def test_the_first_request_after_boot_pays_extra_once() -> None:
    cold = StepMachine(TIMING, 2)
    first, second = cold.submit("a", 100, 1, 0.0), cold.submit("b", 100, 1, 0.0)

    run(cold)

    assert first.first_ms == 610.0
    assert second.first_ms == 710.0


def test_a_lone_request_pays_host_prefill_and_its_steps() -> None:
    one = machine()
    sequence = one.submit("a", 100, 3, 0.0)

    run(one)

    assert (sequence.first_ms, sequence.ended_ms) == (110.0, 210.0)


def test_no_decode_step_runs_while_a_prompt_is_prefilled() -> None:
    one = machine()
    first = one.submit("a", 100, 4, 0.0)
    one.next_ms()
    one.finish()
    one.submit("b", 100, 1, 111.0)

    works = [(done.work, done.started_ms, done.ended_ms) for done in run(one)]

    # The step under way at 111 ends; the prompt then goes before the next one.
    assert works[:3] == [
        (Work.DECODE, 110.0, 160.0),
        (Work.PREFILL, 160.0, 260.0),
        (Work.DECODE, 260.0, 310.0),
    ]
    assert first.ended_ms == 360.0


def test_the_host_s_work_overlaps_the_device() -> None:
    one = machine()
    one.submit("a", 100, 1, 0.0)
    second = one.submit("b", 100, 1, 0.0)

    run(one)

    assert second.first_ms == 210.0


def test_a_request_beyond_the_slots_waits_for_one_to_free() -> None:
    one = machine(slots=1)
    one.submit("a", 100, 2, 0.0)
    second = one.submit("b", 100, 1, 0.0)

    run(one)

    assert second.started_ms == 160.0


def test_a_step_s_cost_follows_the_longest_sequence_over_its_bucket_s_edge() -> None:
    one = machine()
    one.submit("a", 254, 5, 0.0)

    steps = [done.ended_ms - done.started_ms for done in run(one) if done.work is Work.DECODE]

    assert steps == [50.0, 70.0, 70.0, 70.0]


def test_a_cancelled_request_frees_its_slot_and_gets_no_more_tokens() -> None:
    one = machine(slots=1)
    gone = one.submit("a", 100, 50, 0.0)
    one.next_ms()
    one.finish()
    next_one = one.submit("b", 100, 1, 120.0)
    one.cancel(gone)

    run(one)

    assert gone.produced == 1
    assert next_one.ended_ms is not None
    assert one.held == 0


def test_finishing_without_work_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="next_ms"):
        machine().finish()


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 3000), st.integers(1, 2000), st.integers(1, 40)), min_size=1, max_size=12
)


@settings(max_examples=60)
@given(arrivals=ARRIVALS, slots=st.integers(1, 4))
def test_steps_taken_together_end_as_steps_taken_one_by_one(
    arrivals: list[tuple[float, int, int]], slots: int
) -> None:
    ordered = [
        replay.Arrival(at_ms=at, prompt_tokens=prompt, output_tokens=out)
        for at, prompt, out in sorted(arrivals)
    ]
    together = replay.open_loop(TIMING, slots=slots, arrivals=ordered)

    one = machine(slots)
    waiting, now = list(ordered), 0.0
    queue: list[replay.Arrival] = []
    singly: list[tuple[float | None, float | None]] = []
    keys = map(str, itertools.count())
    while waiting or queue or one.held:
        ends = one.next_ms()
        if waiting and (ends is None or waiting[0].at_ms <= ends):
            queue.append(waiting.pop(0))
            now = queue[-1].at_ms
        else:
            done = one.finish()
            now = done.ended_ms
            singly += [(s.first_ms, s.ended_ms) for s in done.finished]
        while queue and one.held < slots:
            arrival = queue.pop(0)
            one.submit(next(keys), arrival.prompt_tokens, arrival.output_tokens, now)

    pairs = zip(sorted((s.first_ms, s.ended_ms) for s in together), sorted(singly), strict=True)
    for (first_a, end_a), (first_b, end_b) in pairs:
        assert first_a == pytest.approx(first_b)
        assert end_a == pytest.approx(end_b)


@settings(max_examples=60)
@given(arrivals=ARRIVALS, slots=st.integers(1, 4))
def test_no_replica_ever_holds_more_than_its_slots_and_every_token_is_made(
    arrivals: list[tuple[float, int, int]], slots: int
) -> None:
    ordered = [
        replay.Arrival(at_ms=at, prompt_tokens=prompt, output_tokens=out)
        for at, prompt, out in sorted(arrivals)
    ]

    served = replay.open_loop(TIMING, slots=slots, arrivals=ordered, replicas=2)

    assert sorted(s.output_tokens for s in served) == sorted(a.output_tokens for a in ordered)
    edges = sorted([(s.first_ms, 1) for s in served] + [(s.ended_ms, -1) for s in served])
    held = most = 0
    for _, change in sorted(edges, key=lambda edge: (edge[0], edge[1])):
        held += change
        most = max(most, held)
    assert most <= 2 * slots
