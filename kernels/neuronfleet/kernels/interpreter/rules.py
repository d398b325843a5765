"""Checks that several instructions share; each raises the fault that its name says."""

from collections.abc import Sequence

from neuronfleet.kernels.interpreter.context import current
from neuronfleet.kernels.interpreter.dtypes import DType
from neuronfleet.kernels.interpreter.faults import (
    BankFault,
    BufferFault,
    DtypeFault,
    OperatorFault,
    PartitionFault,
    PlatformFault,
    ShapeFault,
)
from neuronfleet.kernels.interpreter.issue import fault
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.operators import Operator
from neuronfleet.kernels.interpreter.platforms import nc_version
from neuronfleet.kernels.interpreter.tensors import NkiTensor

SBUF = MemoryRegion.sbuf
PSUM = MemoryRegion.psum


def on_chip(*tensors: object) -> None:
    """Operands of a compute engine: in SBUF or PSUM, at partitions where it can start."""
    for tensor in tensors:
        if not isinstance(tensor, NkiTensor):
            continue
        if not tensor.on_chip:
            raise fault(BufferFault, f"is in {tensor.buffer.value}", tensor, "SBUF or PSUM")
        start_partition(tensor)


def start_partition(tensor: NkiTensor) -> None:
    """The start of a compute engine's access: 0; 64 for up to 64 partitions; 32 and 96 for 32."""
    settings = current().settings
    row = max(tensor.storage.row_bytes // tensor.dtype.itemsize, 1)
    first = tensor.storage.base_partition + tensor.offset // row
    count = tensor.shape[0]
    if count > settings.platform.partitions:
        raise fault(PartitionFault, f"{count} partitions", tensor, "128 partitions")
    allowed = settings.platform.start_partitions(count)
    if settings.strict and first not in allowed:
        raise fault(
            PartitionFault, f"starts at partition {first}", tensor,
            f"{count} partitions start at {' or '.join(map(str, allowed))}",
        )  # fmt: skip


def region(tensor: NkiTensor, *allowed: MemoryRegion) -> None:
    """The memories that an operand may be in."""
    if tensor.buffer not in allowed:
        names = " or ".join(one.value.upper() for one in allowed)
        raise fault(BufferFault, f"is in {tensor.buffer.value}", tensor, names)


def same_layout(first: NkiTensor, *others: NkiTensor) -> None:
    """As many partitions, and as many elements in each."""
    wanted = (first.shape[0], first.free_size)
    for other in others:
        if (other.shape[0], other.free_size) != wanted:
            raise fault(
                ShapeFault, f"{other.shape[0]} partitions of {other.free_size} elements", other,
                f"{wanted[0]} partitions of {wanted[1]}, as {first.shape}",
            )  # fmt: skip


def same_size(first: NkiTensor, *others: NkiTensor) -> None:
    """As many elements."""
    for other in others:
        if other.size != first.size:
            raise fault(ShapeFault, f"{other.size} elements", other, f"{first.size} elements")


def same_dtype(first: NkiTensor, *others: NkiTensor) -> None:
    """One type."""
    for other in others:
        if other.dtype != first.dtype:
            raise fault(DtypeFault, f"is {other.dtype}", other, str(first.dtype))


def dtype(tensor: NkiTensor, allowed: Sequence[DType]) -> None:
    """The types that an operand may have."""
    if tensor.dtype not in allowed:
        raise fault(DtypeFault, f"is {tensor.dtype}", tensor, " or ".join(allowed))


def column(operand: object, data: NkiTensor) -> None:
    """An operand that is a number, or a tensor of one element for each of data's partitions."""
    if not isinstance(operand, NkiTensor):
        return
    on_chip(operand)
    if operand.free_size != 1 or operand.shape[0] != data.shape[0]:
        raise fault(
            ShapeFault, "is no column", operand, f"({data.shape[0]}, 1), one element a partition"
        )


def not_both_psum(first: NkiTensor, second: NkiTensor) -> None:
    """Two inputs share one PSUM read port."""
    if first.buffer is PSUM and second.buffer is PSUM:
        raise fault(BufferFault, "is in psum as the other input is", second, "one input in PSUM")


def gpsimd(*tensors: object) -> None:
    """GpSimd cannot reach PSUM."""
    for tensor in tensors:
        if isinstance(tensor, NkiTensor):
            on_chip(tensor)
            region(tensor, SBUF)


def reducible(op: Operator) -> None:
    """An operator that reduces."""
    if not isinstance(op, Operator) or op.start is None or op.name.endswith("_shift"):
        raise fault(OperatorFault, f"{op!r} does not reduce", None, "add, multiply, maximum, ...")


def same_kind(op0: Operator, op1: Operator | None) -> None:
    """Bit and arithmetic operators do not mix in one instruction."""
    if op1 is not None and op0.bitvec != op1.bitvec:
        raise fault(OperatorFault, f"{op0!r} with {op1!r}", None, "both on bits or both arithmetic")


def integers(op: Operator, *tensors: NkiTensor) -> None:
    """Bit operators work on integers alone."""
    for tensor in tensors:
        if op.bitvec and not tensor.dtype.is_integer:
            raise fault(DtypeFault, f"is {tensor.dtype} under {op!r}", tensor, "an integer type")


def operator(op: object) -> Operator:
    """What was given as `op`, which must be an operator of the language."""
    if not isinstance(op, Operator):
        raise fault(OperatorFault, f"{op!r} is no operator", None, "an operator of nki.language")
    return op


def one_bank(tensor: NkiTensor) -> None:
    """A matrix product's destination: inside of one PSUM bank in every partition."""
    platform = current().settings.platform
    size = tensor.dtype.itemsize
    row = max(tensor.storage.row_bytes // size, 1)
    base = tensor.storage.address[1] if tensor.storage.address else 0
    low = high = tensor.offset % row
    for count, stride in zip(tensor.shape[1:], tensor.strides[1:], strict=True):
        high += max((count - 1) * stride, 0)
    first, last = base + low * size, base + (high + 1) * size - 1
    # v4 may write up to the whole PSUM, from the start of a bank.
    if platform.version >= nc_version.gen4 and first % platform.psum_bank_bytes == 0:
        return
    if first // platform.psum_bank_bytes != last // platform.psum_bank_bytes:
        raise fault(
            BankFault, f"bytes {first}..{last} of a partition", tensor,
            f"one bank of {platform.psum_bank_bytes} bytes",
        )  # fmt: skip


def since(version: nc_version) -> None:
    """An instruction that older cores lack."""
    platform = current().settings.platform
    if platform.version < version:
        raise fault(
            PlatformFault,
            f"{platform.name} does not have it",
            None,
            f"NeuronCore {version.name} on",
        )
