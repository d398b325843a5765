"""Element-wise work: tensors with tensors and with one number a partition."""

from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.dtypes import Array, convert
from neuronfleet.kernels.interpreter.faults import DtypeFault, OperatorFault, ShapeFault
from neuronfleet.kernels.interpreter.isa import constants
from neuronfleet.kernels.interpreter.isa.constants import engine, name_of
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.operators import TENSOR_SCALAR_UNARY, Operator
from neuronfleet.kernels.interpreter.tensors import NkiTensor

Operand = float | NkiTensor | None
_WHOLE = ("int32", "uint32")


def queue(chosen: engine, default: str) -> str:
    """The engine that a call names, or the one it gets."""
    name = name_of(constants.engine, chosen or 0)
    return default if name == "unknown" else name


def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Dst = src, converted."""
    where = queue(engine, "vector")
    step = issue("tensor_copy", where, {"dst": dst}, {"src": src}, name)
    _reach(where, dst, src)
    rules.same_layout(dst, src)
    return step.run(lambda: access.write(dst, access.read(src).copy()))


def memset(
    dst: NkiTensor, value: float, engine: engine = engine.unknown, name: str | None = None
) -> NkiInstruction:
    """Dst = one number, which must be of dst's kind."""
    where = queue(engine, "vector")
    step = issue("memset", where, {"dst": dst}, {}, name)
    _reach(where, dst)
    if dst.dtype.is_integer and float(value) != int(value):
        raise fault(DtypeFault, f"is {dst.dtype}, the value {value}", dst, "a whole number")
    fill = convert(np.asarray(value), dst.dtype)
    return step.run(lambda: access.write(dst, np.broadcast_to(fill, dst.shape)))


def _reach(where: str, *tensors: object) -> None:
    if where == "gpsimd":
        rules.gpsimd(*tensors)
    rules.on_chip(*tensors)


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Operator,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = data1 op data2; in float32, on bits for bit operators, exact for 32-bit integers."""
    where = queue(engine, "vector")
    op = rules.operator(op)
    reads = {"data1": data1, "data2": data2}
    step = issue("tensor_tensor", where, {"dst": dst}, reads, name, {"op": op.name})
    _reach(where, dst, data1, data2)
    rules.not_both_psum(data1, data2)
    rules.same_layout(dst, data1, data2)
    rules.integers(op, dst, data1, data2)
    whole = all(one.dtype in _WHOLE for one in (dst, data1, data2))

    def compute() -> None:
        left, right = _pair(data1, data2, whole=whole or op.bitvec)
        access.write(dst, _narrow(op.function(left, right), whole=whole or op.bitvec))

    return step.run(compute)


def _pair(first: NkiTensor, second: NkiTensor, *, whole: bool) -> tuple[Array, Array]:
    if not whole:
        return access.flat(first), access.flat(second)
    left, right = access.read(first), access.read(second)
    rows = first.shape[0]
    return left.reshape(rows, -1).astype(np.int64), right.reshape(rows, -1).astype(np.int64)


def _narrow(values: Array, *, whole: bool) -> Array:
    return values if whole else values.astype(np.float32, copy=False)


def numbers(operand: Operand, data: NkiTensor) -> Any:
    """An operand as a float32 number or column [P, 1]."""
    if isinstance(operand, NkiTensor):
        return access.flat(operand)
    return np.float32(operand if operand is not None else 0.0)


def _bits(operand: Operand) -> Any:
    if isinstance(operand, NkiTensor):
        return access.read(operand).reshape(operand.shape[0], -1).astype(np.int64)
    return np.int64(int(operand or 0))


def apply(op: Operator, values: Array, operand: Any, *, reverse: bool) -> Array:
    """`values op operand`, or the other way round; unary operators ignore the operand."""
    if op.unary or op.name == "bypass":
        return np.asarray(op.function(values))
    return np.asarray(op.function(operand, values) if reverse else op.function(values, operand))


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: Operand,
    reverse0: bool = False,
    op1: Operator | None = None,
    operand1: Operand = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = (data op0 operand0) op1 operand1, operands a number or one a partition."""
    where = queue(engine, "vector")
    op0 = rules.operator(op0)
    reads = {"data": data, "operand0": operand0, "operand1": operand1}
    ops = op0.name + (f",{op1.name}" if op1 is not None else "")
    step = issue("tensor_scalar", where, {"dst": dst}, reads, name, {"op": ops})
    _reach(where, dst, data)
    rules.same_layout(dst, data)
    for operand in (operand0, operand1):
        rules.column(operand, data)
    rules.same_kind(op0, op1)
    rules.integers(op0, dst, data)
    _check_unary(op0, op1)
    whole = op0.bitvec or _exact(dst, data, operand0, operand1)

    def compute() -> None:
        value: Array
        if whole:
            value = access.read(data).reshape(data.shape[0], -1).astype(np.int64)
        else:
            value = access.flat(data)
        for op, operand, reverse in ((op0, operand0, reverse0), (op1, operand1, reverse1)):
            if op is not None:
                other = _bits(operand) if whole else numbers(operand, data)
                value = _narrow(apply(op, value, other, reverse=reverse), whole=whole)
        access.write(dst, value)

    return step.run(compute)


def _check_unary(*ops: Operator | None) -> None:
    for op in ops:
        if op is not None and op.unary and op.name not in TENSOR_SCALAR_UNARY:
            raise fault(OperatorFault, f"{op!r} is an activation function", None, "an ALU operator")


def _exact(dst: NkiTensor, data: NkiTensor, *operands: Operand) -> bool:
    """Whether it is the integer arithmetic that addresses need: 32-bit, with whole operands."""
    if dst.dtype not in _WHOLE or data.dtype not in _WHOLE:
        return False
    return all(
        one is None or isinstance(one, int) or (isinstance(one, NkiTensor) and one.dtype in _WHOLE)
        for one in operands
    )


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: Operand,
    op1: Operator,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = (data op0 operand0) op1 operand1, operand1 a tensor."""
    reads = {"data": data, "operand0": operand0, "operand1": operand1}
    ops = f"{op0.name},{op1.name}"
    step = issue("scalar_tensor_tensor", "vector", {"dst": dst}, reads, name, {"op": ops})
    rules.on_chip(dst, data, operand1)
    rules.same_layout(dst, data, operand1)
    rules.not_both_psum(data, operand1)
    rules.column(operand0, data)

    def compute() -> None:
        first = apply(op0, access.flat(data), numbers(operand0, data), reverse=reverse0)
        access.write(dst, apply(op1, first, access.flat(operand1), reverse=reverse1))

    return step.run(compute)


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Dst = 1 / data."""
    step = issue("reciprocal", "vector", {"dst": dst}, {"data": data}, name)
    rules.on_chip(dst, data)
    rules.same_layout(dst, data)
    return step.run(lambda: access.write(dst, np.float32(1) / access.flat(data)))


def tensor_copy_predicated(
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = src where the predicate is not 0; elsewhere dst stays."""
    reads = {"src": src, "predicate": predicate}
    step = issue("tensor_copy_predicated", "vector", {"dst": dst}, reads, name)
    rules.on_chip(dst, src, predicate)
    rules.same_layout(dst, predicate)
    if isinstance(src, NkiTensor):
        rules.same_layout(dst, src)

    def compute() -> None:
        chosen = (access.read(predicate).reshape(dst.shape) != 0) ^ reverse_pred
        view = access.resolve(dst)
        given = access.read(src) if isinstance(src, NkiTensor) else np.full(dst.shape, src)
        access.window(dst, view)[chosen] = convert(given, dst.dtype).reshape(dst.shape)[chosen]
        access.mark_where(dst, view, chosen)

    return step.run(compute)


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Any, name: str | None = None
) -> NkiInstruction:
    """Partitions reordered in each quadrant of 32: dst[i] = src[mask[i]]; 255 leaves dst[i]."""
    step = issue("nc_stream_shuffle", "vector", {"dst": dst}, {"src": src}, name)
    mask = np.asarray([int(n) for n in shuffle_mask])
    if mask.shape != (32,):
        raise fault(ShapeFault, f"mask of {mask.size}", None, "32 elements")
    if ((mask != 255) & (mask > 31)).any():
        raise fault(
            ShapeFault, f"mask names partition {mask[mask != 255].max()}", None, "0..31, 255"
        )
    rules.on_chip(dst, src)
    rules.same_dtype(src, dst)
    if dst.free_size != src.free_size:
        raise fault(ShapeFault, f"{src.free_size} elements", src, f"{dst.free_size} in a partition")

    def compute() -> None:
        rows = np.arange(dst.shape[0])
        wanted = mask[rows % 32]
        origin = rows // 32 * 32 + wanted
        moved = (wanted != 255) & (origin < src.shape[0])
        values = access.read(src[0 : src.shape[0]]).reshape(src.shape[0], -1)[origin[moved]]
        view = access.resolve(dst)
        target = access.window(dst, view)
        target[moved] = values.reshape((-1, *dst.shape[1:]))
        chosen = np.zeros(dst.shape, np.bool_)
        chosen[moved] = True
        access.mark_where(dst, view, chosen)

    return step.run(compute)
