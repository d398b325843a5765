"""How long one instruction holds its engine, waits left out: the published issue formulas."""

from math import prod

from neuronfleet.kernels.cost.constants import Constants
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction, Operand

_TWO_INPUTS = frozenset(
    {
        "tensor_tensor", "scalar_tensor_tensor", "tensor_tensor_scan", "tensor_copy_predicated",
        "select_reduce",
    }
)  # fmt: skip
_COPIES = frozenset({"tensor_copy", "tensor_scalar", "memset"})
"""What runs 4 times as fast on 2-byte elements in SBUF; `tensor_tensor` runs twice as fast."""
COLLECTIVES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})


def issue_us(one: Instruction, constants: Constants) -> float:
    """Microseconds that a compute engine is held.

    Raises:
        ValueError: For a queue that is no compute engine.
    """
    clocks = constants.platform.clocks
    match one.engine:
        case "tensor":
            return tensor_cycles(one, constants) / clocks.tensor / 1e3
        case "vector":
            return vector_cycles(one, constants) / clocks.vector / 1e3
        case "scalar":
            return scalar_cycles(one, constants) / clocks.scalar / 1e3
        case "gpsimd":
            return gpsimd_cycles(one, constants) / clocks.gpsimd / 1e3
        case "sync":
            return constants.register_us if one.opcode.startswith("register") else 0.0
    raise ValueError(f"instruction {one.index} ({one.opcode}) runs on {one.engine!r}")


def tensor_cycles(one: Instruction, constants: Constants) -> int:
    """A column of the moving tile a cycle; the next stationary tile loads behind it.

    128 columns load in 32 cycles, less than the 64 that any product takes.
    """
    moving = _reading(one, "moving")
    if moving is not None:
        columns = _free(moving)
        if dict(one.details).get("perf_mode") == "double_row":
            columns //= 2
    else:  # a transpose: the data is stationary and an identity of its partitions moves
        moving = _reading(one, "data")
        columns = moving.shape[0] if moving is not None else 0
    wide = moving is not None and moving.dtype.itemsize == 4
    return max(columns, constants.pe_least_columns) * (constants.pe_float32_passes if wide else 1)


def vector_cycles(one: Instruction, constants: Constants) -> float:
    """An element of a partition and input a cycle, fewer in the 2-byte modes."""
    count = float(elements(one))
    if one.opcode == "reciprocal":
        count *= constants.vector_reciprocal_passes
    elif one.opcode in _TWO_INPUTS:
        count *= 2
    if constants.vector_fast_modes and _short_in_sbuf(one):
        count /= 4 if one.opcode in _COPIES else 2 if one.opcode == "tensor_tensor" else 1
    # 100 cycles on top of a short one, none from 128 elements on; in between never less for more.
    return max(count, min(count + constants.vector_short_cycles, 128.0))


def scalar_cycles(one: Instruction, constants: Constants) -> int:
    """An element of a partition a cycle, and the accumulators where they are read."""
    count = max(elements(one), constants.scalar_least_cycles)
    reads_sums = any(o.role == "reduce_res" for o in one.writes)
    return count + (constants.scalar_read_cycles if reads_sums else 0)


def gpsimd_cycles(one: Instruction, constants: Constants) -> int:
    """Cycles for every element of a partition and input; a barrier only passes."""
    if one.opcode == "core_barrier":
        return 0
    inputs = 2 if one.opcode in _TWO_INPUTS else 1
    return max(elements(one), constants.scalar_least_cycles) * constants.gpsimd_cycles * inputs


def elements(one: Instruction) -> int:
    """Elements of one partition: those of the longest operand."""
    return max((_free(o) for o in (*one.writes, *one.reads)), default=0)


def moved_bytes(one: Instruction) -> int:
    """Bytes that a transfer streams: the larger of what it reads and writes."""
    sources = [o for o in one.reads if not o.role.endswith("offset")]
    return max(sum(o.nbytes for o in sources), sum(o.nbytes for o in one.writes))


def hbm_bytes(one: Instruction) -> tuple[int, int]:
    """Bytes of device memory (read, written). An indirect sum reads its target first."""
    read = sum(o.nbytes for o in one.reads if not o.region.on_chip)
    written = sum(o.nbytes for o in one.writes if not o.region.on_chip)
    if one.opcode == "dma_compute":
        read += sum(o.nbytes for o in one.writes if o.indirect and not o.region.on_chip)
    return read, written


def _short_in_sbuf(one: Instruction) -> bool:
    """Whether all tensors are 2-byte ones of SBUF; a column of factors may be wider."""
    full = elements(one)
    operands = [o for o in (*one.writes, *one.reads) if _free(o) == full]
    return all(o.dtype.itemsize == 2 and o.region is MemoryRegion.sbuf for o in operands)


def _free(operand: Operand) -> int:
    return prod(operand.shape[1:])


def _reading(one: Instruction, role: str) -> Operand | None:
    return next((o for o in one.reads if o.role == role), None)
