"""The published issue formulas, engine by engine."""

from typing import Any

import pytest

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.constants import CONSTANTS
from neuronfleet.kernels.interpreter import dtypes
from neuronfleet.kernels.interpreter.dtypes import DType
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction
from tests.kernels.cost.programs import HBM, PSUM, SBUF, TRN2, Program, operand

BF16, FP32 = dtypes.bfloat16, dtypes.float32


def one(engine: str, opcode: str, writes: Any, reads: Any = (), **details: Any) -> Instruction:
    program = Program()
    program.add(engine, opcode, tuple(writes), tuple(reads), **details)
    return program.trace.instructions[0]


@pytest.mark.parametrize(
    ("columns", "dtype", "cycles"),
    [(512, BF16, 512), (1, BF16, 64), (64, BF16, 64), (512, FP32, 2048), (8, FP32, 256)],
)
def test_a_product_costs_its_moving_columns_and_float32_four_passes(
    columns: int, dtype: DType, cycles: int
) -> None:
    reads = [
        operand("stationary", 1, (128, 128), dtype=dtype),
        operand("moving", 2, (128, columns), dtype=dtype),
    ]
    product = one("tensor", "nc_matmul", [operand("dst", 3, (128, columns), region=PSUM)], reads)

    assert issue.tensor_cycles(product, TRN2) == cycles
    assert issue.issue_us(product, TRN2) == pytest.approx(cycles / 2400)


def test_a_double_row_product_moves_two_rows_a_cycle() -> None:
    moving = operand("moving", 2, (128, 2, 256), dtype=dtypes.float8_e4m3)
    product = one("tensor", "nc_matmul", [], [moving], perf_mode="double_row")

    assert issue.tensor_cycles(product, TRN2) == 256


def test_a_transpose_on_the_pe_moves_an_identity_of_the_partitions() -> None:
    data = operand("data", 1, (128, 32), dtype=BF16)

    assert issue.tensor_cycles(one("tensor", "nc_transpose", [], [data]), TRN2) == 128


@pytest.mark.parametrize(
    ("opcode", "dtype", "region", "inputs", "cycles"),
    [
        ("tensor_copy", FP32, SBUF, 1, 1024),
        ("tensor_copy", BF16, SBUF, 1, 256),
        ("tensor_copy", BF16, PSUM, 1, 1024),
        ("tensor_tensor", FP32, SBUF, 2, 2048),
        ("tensor_tensor", BF16, SBUF, 2, 1024),
        ("scalar_tensor_tensor", BF16, SBUF, 2, 2048),
        ("reciprocal", FP32, SBUF, 1, 8192),
        ("tensor_reduce", BF16, SBUF, 1, 1024),
    ],
)
def test_vector_costs_an_element_and_input_a_cycle_and_less_for_short_ones_in_sbuf(
    opcode: str, dtype: DType, region: MemoryRegion, inputs: int, cycles: int
) -> None:
    reads = [operand("data", n, (128, 1024), dtype=dtype, region=region) for n in range(inputs)]
    found = one("vector", opcode, [operand("dst", 9, (128, 1024), dtype=dtype)], reads)

    assert issue.vector_cycles(found, TRN2) == cycles


def test_generation_two_has_no_fast_modes() -> None:
    into, source = (operand(role, 1, (128, 1024), dtype=BF16) for role in ("dst", "src"))
    copy = one("vector", "tensor_copy", [into], [source])

    assert issue.vector_cycles(copy, CONSTANTS["trn1"]) == 1024


@pytest.mark.parametrize(("columns", "cycles"), [(1, 101), (20, 120), (64, 128), (128, 128)])
def test_a_short_vector_instruction_costs_a_hundred_cycles_more(columns: int, cycles: int) -> None:
    copy = one("vector", "tensor_copy", [operand("dst", 9, (128, columns))])

    assert issue.vector_cycles(copy, TRN2) == cycles


def test_an_activation_costs_64_at_least_and_64_more_to_read_its_sums() -> None:
    short, wide = operand("dst", 1, (128, 8)), operand("dst", 1, (128, 500))
    sums = operand("reduce_res", 2, (128, 1))

    assert issue.scalar_cycles(one("scalar", "activation", [short]), TRN2) == 64
    assert issue.scalar_cycles(one("scalar", "activation", [wide]), TRN2) == 500
    assert issue.scalar_cycles(one("scalar", "activation", [wide, sums]), TRN2) == 564


def test_gpsimd_takes_two_cycles_an_element_and_input() -> None:
    found = one("gpsimd", "tensor_tensor", [operand("dst", 1, (128, 100))])

    assert issue.gpsimd_cycles(found, TRN2) == 400


def test_a_copy_within_device_memory_takes_its_bandwidth_twice() -> None:
    copy = one(
        "dma", "dma_copy", [operand("dst", 1, (4, 64), region=HBM)],
        [operand("src", -1, (4, 64), region=HBM)],
    )  # fmt: skip

    assert issue.hbm_bytes(copy) == (1024, 1024)
    assert issue.moved_bytes(copy) == 1024


def test_a_scattered_sum_reads_its_target_first() -> None:
    target = operand("dst", 1, (4, 64), region=HBM, indirect=True)
    scatter = one("dma", "dma_compute", [target], [operand("srcs[0]", 2, (4, 64))])

    assert issue.hbm_bytes(scatter) == (1024, 1024)


def test_an_engine_without_a_formula_is_an_error() -> None:
    with pytest.raises(ValueError, match="runs on 'abacus'"):
        issue.issue_us(one("abacus", "count", []), TRN2)


def test_constants_are_those_fixed_before_tuning() -> None:
    assert (TRN2.dependent_us, TRN2.dma_us, TRN2.rank_gb_per_s) == (0.43, 1.9, 725.0)
    assert (TRN2.collective_us, TRN2.collective_slow_us) == (5.0, 15.0)
    assert {name: c.rank_gb_per_s for name, c in CONSTANTS.items()} == {
        "trn2": 725.0, "trn1": 410.0, "inf2": 410.0, "trn3": 1175.0,
    }  # fmt: skip
