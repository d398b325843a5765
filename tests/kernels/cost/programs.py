"""Programs written as instructions, without a kernel: small enough to time by hand."""

from math import prod

from neuronfleet.kernels.cost.constants import CONSTANTS
from neuronfleet.kernels.interpreter import dtypes
from neuronfleet.kernels.interpreter.dtypes import DType
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction, Operand, Trace

TRN2 = CONSTANTS["trn2"]
SBUF, PSUM, HBM = MemoryRegion.sbuf, MemoryRegion.psum, MemoryRegion.shared_hbm


def operand(
    role: str,
    storage: int,
    shape: tuple[int, ...],
    *,
    region: MemoryRegion = SBUF,
    dtype: DType = dtypes.float32,
    first: int = 0,
    indirect: bool = False,
) -> Operand:
    """A dense tensor from the byte `first` of its partition, or of its storage in HBM."""
    size = prod(shape) * dtype.itemsize
    width = size // shape[0] if region.on_chip else size
    return Operand(
        role=role, tensor=f"t{storage}", storage=storage, region=region, dtype=dtype, shape=shape,
        strides=tuple(prod(shape[n + 1 :]) for n in range(len(shape))),
        partitions=(0, shape[0]) if region.on_chip else (0, 1), extent=(first, first + width),
        nbytes=size, indirect=indirect,
    )  # fmt: skip


class Program:
    """A core's instructions in the order they are added; each method returns its position."""

    def __init__(self, rank: int = 0, core: int = 0) -> None:
        self.trace = Trace(rank, core)

    def add(
        self,
        engine: str,
        opcode: str,
        writes: tuple[Operand, ...] = (),
        reads: tuple[Operand, ...] = (),
        **details: str | int,
    ) -> int:
        index = len(self.trace.instructions)
        self.trace.instructions.append(
            Instruction(
                index=index, engine=engine, opcode=opcode, name="", place=("/k/kernel.py", index),
                writes=writes, reads=reads, details=tuple(details.items()),
            )
        )  # fmt: skip
        return index

    def load(self, storage: int, columns: int, source: int = -1) -> int:
        """[128, columns] float32 from HBM."""
        shape = (128, columns)
        into = (operand("dst", storage, shape),)
        return self.add("dma", "dma_copy", into, (operand("src", source, shape, region=HBM),))

    def store(self, storage: int, columns: int, target: int = -99) -> int:
        shape = (128, columns)
        into = (operand("dst", target, shape, region=HBM),)
        return self.add("dma", "dma_copy", into, (operand("src", storage, shape),))

    def activation(self, target: int, source: int, columns: int) -> int:
        return self._unary("scalar", "activation", target, source, columns)

    def copy(self, target: int, source: int, columns: int, dtype: DType = dtypes.float32) -> int:
        return self._unary("vector", "tensor_copy", target, source, columns, dtype)

    def matmul(self, target: int, stationary: int, moving: int, columns: int) -> int:
        """[128, columns] of bfloat16 operands."""
        into = (operand("dst", target, (128, columns), region=PSUM),)
        reads = (
            operand("stationary", stationary, (128, 128), dtype=dtypes.bfloat16),
            operand("moving", moving, (128, columns), dtype=dtypes.bfloat16),
        )
        return self.add("tensor", "nc_matmul", into, reads)

    def _unary(
        self, engine: str, opcode: str, target: int, source: int, columns: int,
        dtype: DType = dtypes.float32,
    ) -> int:  # fmt: skip
        shape = (128, columns)
        into = (operand("dst", target, shape, dtype=dtype),)
        return self.add(engine, opcode, into, (operand("src", source, shape, dtype=dtype),))
