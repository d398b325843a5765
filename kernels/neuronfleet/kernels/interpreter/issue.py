"""The life of an instruction: record it, check it, compute it."""

from collections.abc import Callable, Mapping

import numpy as np

from neuronfleet.kernels.interpreter.context import Core, current, running
from neuronfleet.kernels.interpreter.faults import (
    BufferFault,
    KernelFault,
    LanguageFault,
    Place,
    kernel_place,
)
from neuronfleet.kernels.interpreter.objects import NKIObject
from neuronfleet.kernels.interpreter.tensors import NkiTensor
from neuronfleet.kernels.interpreter.trace import Instruction, Operand

Details = Mapping[str, str | int]


class NkiInstruction(NKIObject):
    """What an instruction's call returns."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.after: tuple[int, ...] = ()

    def depends_on(self, *producers: "NkiInstruction") -> None:
        """Wait for others too; program order already does so here."""
        self.after += tuple(p.handle for p in producers)


class Step:
    """One instruction in execution."""

    __slots__ = ("core", "index", "opcode", "place", "reads", "writes")

    def __init__(
        self,
        core: Core,
        opcode: str,
        place: Place | None,
        writes: dict[str, NkiTensor],
        reads: dict[str, NkiTensor],
    ) -> None:
        self.core = core
        self.index = len(core.trace.instructions)
        self.opcode = opcode
        self.place = place
        self.writes = writes
        self.reads = reads

    def role(self, tensor: NkiTensor | None) -> str | None:
        """The parameter that a tensor was given for, an offset inside of one included."""
        for name, one in (*self.writes.items(), *self.reads.items()):
            if one is tensor:
                return name
            if one.indirection is not None and one.indirection.source is tensor:
                return f"{name}'s offset"
        return None

    def run(self, compute: Callable[[], object]) -> NkiInstruction:
        """Compute; without numbers only note what is read and written."""
        from neuronfleet.kernels.interpreter import access

        if self.core.settings.numbers:
            with np.errstate(all="ignore"):
                compute()
        else:
            for tensor in self.reads.values():
                access.check(tensor)
            for tensor in self.writes.values():
                access.mark(tensor)
        for tensor in self.reads.values():
            tensor.storage.touch(self.index, write=False)
        for tensor in self.writes.values():
            tensor.storage.touch(self.index, write=True)
        self.core.step = None
        return NkiInstruction(self.index)


def issue(
    opcode: str,
    engine: str,
    writes: Mapping[str, object],
    reads: Mapping[str, object],
    name: str | None = None,
    details: Details | None = None,
) -> Step:
    """Record an instruction of the running core.

    Args:
        opcode: As in `nki.isa`.
        engine: Queue that runs it.
        writes: Tensors by parameter; None is left out.
        reads: Tensors by parameter; numbers and None are left out.
        name: The kernel's name for it.
        details: What else a timing model wants.

    Raises:
        LanguageFault: Outside of a kernel, or for a destination that is no tensor.
    """
    core = current()
    place = kernel_place()
    for role, one in writes.items():
        if one is not None and not isinstance(one, NkiTensor):
            raise LanguageFault(
                f"is a {type(one).__name__}, not a tensor", operand=role, instruction=opcode,
                place=place,
            )  # fmt: skip
    into = {role: one for role, one in writes.items() if isinstance(one, NkiTensor)}
    out_of = {role: one for role, one in reads.items() if isinstance(one, NkiTensor)}
    step = Step(core, opcode, place, into, out_of)
    core.step = step
    core.trace.instructions.append(
        Instruction(
            index=step.index,
            engine=engine,
            opcode=opcode,
            name=name or "",
            place=place,
            writes=tuple(_operand(role, one) for role, one in into.items()),
            reads=tuple(_operand(role, one) for role, one in out_of.items())
            + tuple(_offsets((*into.items(), *out_of.items()))),
            details=tuple((details or {}).items()),
        )
    )
    return step


def _offsets(operands: tuple[tuple[str, NkiTensor], ...]) -> list[Operand]:
    """Tensors that hold addresses are read too."""
    found = []
    for role, one in operands:
        if one.indirection is not None and isinstance(one.indirection.source, NkiTensor):
            found.append(_operand(f"{role}'s offset", one.indirection.source))
    return found


def _operand(role: str, tensor: NkiTensor) -> Operand:
    size = tensor.dtype.itemsize
    partitions, extent = (0, 1), (0, tensor.storage.nbytes)
    if tensor.on_chip:
        row = max(tensor.storage.row_bytes // size, 1)
        first = tensor.storage.base_partition + tensor.offset // row
        step = max(tensor.strides[0] // row, 1) if tensor.shape[0] > 1 else 1
        partitions = (first, first + (tensor.shape[0] - 1) * step + 1)
        extent = (0, tensor.storage.row_bytes)
        if tensor.indirection is None:
            low = tensor.offset % row
            high = low + sum(
                (n - 1) * s
                for n, s in zip(tensor.shape[1:], tensor.strides[1:], strict=True)
                if s > 0
            )
            extent = (low * size, (high + 1) * size)
    elif tensor.indirection is None:
        low, high = tensor.layout.bounds
        extent = (low * size, high * size)
    return Operand(
        role=role,
        tensor=tensor.name,
        storage=tensor.storage.serial,
        region=tensor.buffer,
        dtype=tensor.dtype,
        shape=tensor.shape,
        strides=tensor.strides,
        partitions=partitions,
        extent=extent,
        nbytes=tensor.size * size,
        indirect=tensor.indirection is not None,
    )


def fault(
    kind: type[KernelFault], problem: str, tensor: NkiTensor | None = None, limit: str | None = None
) -> KernelFault:
    """A fault of the instruction in execution, to be raised."""
    core = running()
    step = core.step if core is not None else None
    return kind(
        problem,
        place=step.place if step is not None else kernel_place(),
        instruction=step.opcode if step is not None else None,
        operand=(step.role(tensor) if step is not None else None)
        or (tensor and tensor.name)
        or None,
        shape=tensor.shape if tensor is not None else None,
        limit=limit,
    )


def require_tensor(value: object, role: str) -> NkiTensor:
    """The value, which must be a tensor.

    Raises:
        BufferFault: Where it is not.
    """
    if not isinstance(value, NkiTensor):
        raise fault(BufferFault, f"{role} is a {type(value).__name__}, not a tensor")
    return value
