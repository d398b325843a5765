"""What a kernel can do wrong: one hierarchy, each fault with its place, operand and limit."""

import sys
from pathlib import Path
from types import FrameType

_HERE = str(Path(__file__).parent)

Place = tuple[str, int]
"""File and line of the kernel."""


class KernelFault(Exception):
    """A kernel that the device, its compiler or its runtime would refuse or run wrongly.

    Attributes:
        place: Kernel file and line, or None where no kernel was running.
        instruction: Opcode, as in `nki.isa`; None outside of an instruction.
        operand: The instruction's parameter that is at fault.
        shape: That operand's shape, in elements.
        limit: The limit that was broken, in words with its figure.
    """

    def __init__(
        self,
        problem: str,
        *,
        place: Place | None = None,
        instruction: str | None = None,
        operand: str | None = None,
        shape: tuple[int, ...] | None = None,
        limit: str | None = None,
    ) -> None:
        self.problem = problem
        self.place = place
        self.instruction = instruction
        self.operand = operand
        self.shape = shape
        self.limit = limit
        where = f"{place[0]}:{place[1]}: " if place else ""
        what = f"{instruction}: " if instruction else ""
        which = f"{operand} " if operand else ""
        size = f"{shape}: " if shape is not None else ""
        bound = f" (limit: {limit})" if limit else ""
        super().__init__(f"{where}{what}{which}{size}{problem}{bound}")


class ShapeFault(KernelFault):
    """Operand shapes that do not fit each other or the instruction."""


class PartitionFault(KernelFault):
    """More partitions than there are, or a start where an engine cannot start."""


class BufferFault(KernelFault):
    """An operand in a memory that the engine cannot reach."""


class DtypeFault(KernelFault):
    """Data types that the instruction does not take, or not together."""


class OperatorFault(KernelFault):
    """An operator that the instruction does not take."""


class BankFault(KernelFault):
    """A matrix product that would cross from one PSUM bank into the next."""


class AccumulationFault(KernelFault):
    """Accumulation onto a PSUM location that no matrix product has started."""


class CapacityFault(KernelFault):
    """More bytes live in a partition than SBUF or PSUM has."""


class UninitialisedRead(KernelFault):
    """A read of elements that nothing has written."""


class OutOfBounds(KernelFault):
    """An address outside of the tensor."""


class DeadlockFault(KernelFault):
    """Cores that wait for each other for ever."""


class PlatformFault(KernelFault):
    """An instruction or type that the chosen platform lacks."""


class NotInterpreted(KernelFault):
    """What the device has and this interpreter does not."""


class LanguageFault(KernelFault):
    """Python that the kernel language does not have."""


def kernel_place() -> Place | None:
    """File and line of the innermost frame outside of the interpreter."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_HERE):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None
