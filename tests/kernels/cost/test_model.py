"""Small programs, timed by hand with trn2's constants."""

from dataclasses import replace

import pytest

from neuronfleet.kernels.cost.model import Cause, simulate
from neuronfleet.kernels.cost.timeline import timeline
from neuronfleet.kernels.cost.waits import waits
from tests.kernels.cost.programs import HBM, TRN2, Program, operand

LOAD_1K = 128 * 1024 * 4 / 725e3  # 524,288 bytes at the rank's 725 GB/s: 0.723 us
ALONE_1K = 1.9 + 128 * 1024 * 4 / 368e3  # one stream of 368 GB/s: 3.325 us


def test_load_compute_store_is_the_sum_of_its_parts_and_waits() -> None:
    program = Program()
    program.load(1, 1024)
    program.activation(2, 1, 1024)
    program.store(2, 1024)

    line = timeline([program.trace], TRN2)

    activation = 1024 / 1.2e3
    assert line.makespan_us == pytest.approx(2 * ALONE_1K + activation + 2 * 0.43)
    assert line.critical_us() == pytest.approx(
        {"dma": 2 * ALONE_1K, "scalar": activation, "wait": 0.86}
    )


def test_independent_loads_overlap_their_start_and_share_the_bandwidth() -> None:
    program = Program()
    for n in range(8):
        program.load(n, 1024)

    line = timeline([program.trace], TRN2)

    assert line.makespan_us == pytest.approx(1.9 + 8 * LOAD_1K)
    assert line.critical_us() == pytest.approx({"bandwidth": 7 * LOAD_1K, "dma": 1.9 + LOAD_1K})


def test_one_load_streams_no_faster_than_its_engines() -> None:
    program = Program()
    program.load(1, 1024)

    assert timeline([program.trace], TRN2).makespan_us == pytest.approx(ALONE_1K)


def test_two_cores_of_a_rank_halve_its_bandwidth() -> None:
    one, two = Program(core=0), Program(core=1)
    for n in range(8):
        one.load(n, 1024)
        two.load(n, 1024)

    line = timeline([one.trace, two.trace], TRN2)

    assert line.makespan_us == pytest.approx(1.9 + 16 * LOAD_1K)
    assert line.memory_us == pytest.approx(16 * LOAD_1K)


def test_cores_of_two_ranks_have_a_rank_s_bandwidth_each() -> None:
    ranks = [Program(rank=n) for n in range(2)]
    for rank in ranks:
        for n in range(8):
            rank.load(n, 1024)

    assert timeline([r.trace for r in ranks], TRN2).makespan_us == pytest.approx(1.9 + 8 * LOAD_1K)


def test_a_store_that_waits_for_its_data_holds_no_load_up() -> None:
    program = Program()
    program.load(1, 64)
    program.activation(2, 1, 48_000)
    store = program.store(2, 1024)
    load = program.load(3, 1024)

    events = simulate([program.trace], TRN2)

    assert events[0, load].end < events[0, store].start
    # The store's bandwidth stands before the load's.
    assert events[0, load].end == pytest.approx(max(ALONE_1K, 1.9 + LOAD_1K * (1 / 16 + 2)))


def test_the_queue_beyond_the_sixteenth_transfer_waits_for_the_first() -> None:
    program = Program()
    for n in range(17):
        program.load(n, 1)

    events = simulate([program.trace], TRN2)

    assert events[0, 15].start == 0.0
    assert events[0, 16].start == events[0, 0].end
    assert events[0, 16].cause is Cause.ENGINE


def test_products_into_one_bank_follow_each_other_without_a_semaphore() -> None:
    program = Program()
    for _ in range(4):
        program.matmul(9, 1, 2, 512)

    line = timeline([program.trace], TRN2)

    assert line.makespan_us == pytest.approx(4 * 512 / 2.4e3)
    assert line.roofline_share == pytest.approx(1.0)


def test_a_value_read_on_the_same_engine_costs_a_semaphore() -> None:
    program = Program()
    program.copy(2, 1, 512)
    program.copy(3, 2, 512)

    assert timeline([program.trace], TRN2).makespan_us == pytest.approx(2 * 512 / 960 + 0.43)


def test_a_buffer_is_not_overwritten_while_another_engine_reads_it() -> None:
    program = Program()
    program.load(1, 256)
    reader = program.activation(2, 1, 256)
    again = program.load(1, 256)

    events = simulate([program.trace], TRN2)

    assert events[0, again].start == pytest.approx(events[0, reader].end + 0.43)
    assert events[0, again].behind == (0, reader)


def test_disjoint_parts_of_one_buffer_do_not_wait_for_each_other() -> None:
    program = Program()
    for first in (0, 4096):
        into = (operand("dst", 1, (128, 64), first=first),)
        program.add("dma", "dma_copy", into, (operand("src", -1, (128, 64), region=HBM),))

    assert waits(program.trace.instructions) == [(), ()]


def test_an_address_in_a_register_waits_for_the_load_of_the_register() -> None:
    program = Program()
    program.add("sync", "register_load", (), (operand("src", 5, (1, 1)),))
    source = operand("src", -1, (128, 64), region=HBM, indirect=True)
    load = program.add("dma", "dma_copy", (operand("dst", 1, (128, 64)),), (source,))

    assert waits(program.trace.instructions)[load] == (0,)


def test_a_barrier_stands_between_shared_writes_and_reads_and_lets_inputs_pass() -> None:
    program = Program()
    write = program.store(1, 64, target=7)
    barrier = program.add("gpsimd", "core_barrier", message="core_barrier#1")
    weights = program.load(2, 64, source=-1)
    shared = program.load(3, 64, source=8)

    need = waits(program.trace.instructions)

    assert need[barrier] == (write,)
    assert need[shared] == (barrier,)
    assert need[weights] == ()


def test_cores_that_exchange_start_with_the_later_one() -> None:
    early, late = Program(core=0), Program(core=1)
    late.activation(1, 2, 6000)
    for program in (early, late):
        program.add(
            "dma", "sendrecv", (operand("dst", 3, (128, 1)),), (operand("src", 1, (128, 1)),),
            message="sendrecv pipe 0#1",
        )  # fmt: skip

    events = simulate([early.trace, late.trace], TRN2)

    assert events[0, 0].start == events[1, 1].start == pytest.approx(6000 / 1.2e3 + 0.43)
    assert events[0, 0].cause is Cause.PEER
    line = timeline([early.trace, late.trace], TRN2)
    assert line.critical_us()["scalar"] == pytest.approx(5.0)


def test_a_collective_costs_five_microseconds_and_fifteen_beside() -> None:
    ranks = [Program(rank=n) for n in range(4)]
    for rank in ranks:
        sums = operand("dst", 1, (8, 2048), region=HBM), operand("src", 2, (8, 2048), region=HBM)
        rank.add("dma", "all_reduce", sums[:1], sums[1:], message="all_reduce#1")

    line = timeline([r.trace for r in ranks], TRN2)

    assert (line.makespan_us, line.slow_us) == (5.0, 15.0)
    assert line.memory_us == 0.0


def test_a_message_that_only_one_core_was_given_for_waits_for_nobody() -> None:
    alone = Program()
    alone.add("dma", "all_reduce", message="all_reduce#1")

    assert timeline([alone.trace], TRN2).makespan_us == 5.0


def test_cores_that_meet_in_opposite_orders_are_an_error() -> None:
    one, two = Program(core=0), Program(core=1)
    for program, order in ((one, "ab"), (two, "ba")):
        for key in order:
            program.add("gpsimd", "core_barrier", message=f"{key}#1")

    with pytest.raises(ValueError, match="waits for what never comes"):
        simulate([one.trace, two.trace], TRN2)


def test_an_empty_run_takes_no_time_and_has_no_share() -> None:
    line = timeline([Program().trace], TRN2)

    assert line.makespan_us == 0.0
    assert line.roofline_share is None
    assert line.critical_path() == ()


def test_a_covering_write_leaves_only_itself_to_wait_for() -> None:
    program = Program()
    program.load(1, 64)
    program.copy(1, 5, 64)
    again = program.activation(1, 5, 64)
    reader = program.store(1, 64)

    need = waits(program.trace.instructions)

    assert need[again] == (1,)
    assert need[reader] == (again,)


def test_a_collective_is_met_core_by_core() -> None:
    cores = [Program(rank=rank, core=core) for rank in range(2) for core in range(2)]
    cores[1].activation(1, 2, 6000)  # rank 0, core 1
    late = (operand("src", 1, (128, 6000)),)
    for program in cores:
        program.add("dma", "all_reduce", (), late, message="all_reduce#1")

    events = simulate([p.trace for p in cores], TRN2)

    assert events[0, 0].start == events[2, 0].start == 0.0
    assert events[1, 1].start == events[3, 0].start == pytest.approx(5.43)


@pytest.mark.parametrize(("first", "apart"), [(256, True), (128, False)])
def test_column_tiles_of_one_matrix_do_not_wait_for_each_other(first: int, apart: bool) -> None:
    program = Program()
    for start in (0, first):
        part = operand("dst", 7, (64, 64), region=HBM, first=start)
        part = replace(part, strides=(4096, 1), extent=(start, start + 63 * 16_384 + 256))
        program.add("dma", "dma_copy", (part,), (operand("src", 1, (128, 32)),))

    assert waits(program.trace.instructions)[1] == (() if apart else (0,))
