"""Reductions and scans along the free dimensions."""

from collections.abc import Sequence

import numpy as np

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.context import current
from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import OperatorFault, ShapeFault
from neuronfleet.kernels.interpreter.isa.constants import reduce_cmd
from neuronfleet.kernels.interpreter.isa.elementwise import Operand, apply, numbers
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.operators import Operator
from neuronfleet.kernels.interpreter.tensors import NkiTensor


def tensor_reduce(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    axis: int | Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = data reduced over its last dimensions, never over the partitions."""
    step = issue("tensor_reduce", "vector", {"dst": dst}, {"data": data}, name, {"op": op.name})
    rules.on_chip(dst, data)
    rules.reducible(op)
    rules.integers(op, dst, data)
    axes = sorted(a % data.ndim for a in ([axis] if isinstance(axis, int) else axis))
    if axes != list(range(data.ndim - len(axes), data.ndim)) or 0 in axes:
        raise fault(ShapeFault, f"axis {axis}", data, "the last dimensions, without the first")
    kept = data.shape[: axes[0]]
    if dst.shape[0] != data.shape[0] or dst.size != int(np.prod(kept)):
        raise fault(ShapeFault, "does not hold the result", dst, f"{kept}")

    def compute() -> None:
        values = access.read(data) if op.bitvec else access.floats(data)
        result = op.reduce(values.reshape((*kept, -1)))
        access.write(dst, -result if negate else result)

    return step.run(compute)


def tensor_partition_reduce(
    dst: NkiTensor, op: Operator, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """dst[1, F] = data reduced over its partitions, by GpSimd."""
    step = issue(
        "tensor_partition_reduce", "gpsimd", {"dst": dst}, {"data": data}, name, {"op": op.name}
    )
    rules.gpsimd(dst, data)
    rules.reducible(op)
    if dst.size != data.free_size:
        raise fault(ShapeFault, "does not hold the result", dst, f"(1, {data.free_size})")
    return step.run(lambda: access.write(dst, op.reduce(access.flat(data).T.copy())))


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: float | NkiTensor,
    op0: Operator,
    op1: Operator,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst[i] = (data0[i] op0 dst[i-1]) op1 data1[i], along each partition."""
    reads = {"data0": data0, "data1": data1, "initial": initial}
    ops = f"{op0.name},{op1.name}"
    step = issue("tensor_tensor_scan", "vector", {"dst": dst}, reads, name, {"op": ops})
    rules.on_chip(dst, data0, data1)
    rules.same_layout(dst, data0, data1)
    rules.not_both_psum(data0, data1)
    rules.column(initial, data0)

    def compute() -> None:
        first, second = access.flat(data0), access.flat(data1)
        state = np.broadcast_to(numbers(initial, data0), (first.shape[0], 1))[:, 0]
        result = np.empty_like(first)
        # The one loop that the recurrence needs: over time, a whole column of partitions a step.
        for n in range(first.shape[1]):
            state = apply(op0, first[:, n], state, reverse=reverse0).astype(np.float32)
            state = apply(op1, state, second[:, n], reverse=reverse1).astype(np.float32)
            result[:, n] = state
        access.write(dst, result)

    return step.run(compute)


def registers_after(
    values: Array, op: Operator, command: reduce_cmd, start: Operand, data: NkiTensor
) -> Array:
    """The Vector engine's reduction registers after one row of values: [P] float32."""
    core = current()
    rows = values.shape[0]
    kept = core.vector_registers
    if kept is None:
        kept = core.vector_registers = np.zeros(128, np.float32)
    if command.name in ("reset", "reset_reduce"):
        kept[:rows] = op.start
    elif command.name == "load_reduce":
        kept[:rows] = np.broadcast_to(numbers(start, data), (rows, 1))[:, 0]
    if command.name in ("reduce", "reset_reduce", "load_reduce"):
        kept[:rows] = op.function(kept[:rows], op.reduce(values)).astype(np.float32)
    return kept[:rows].reshape(rows, 1)


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: Operand,
    reduce_op: Operator,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: Operand = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = data op0 operand0, and its reduction into the registers and `reduce_res`."""
    step = issue(
        "tensor_scalar_reduce",
        "vector",
        {"dst": dst, "reduce_res": reduce_res},
        {"data": data, "operand0": operand0, "reduce_init": reduce_init},
        name,
        {"op": f"{op0.name},{reduce_op.name}"},
    )
    rules.on_chip(dst, data, reduce_res)
    rules.same_layout(dst, data)
    rules.column(operand0, data)
    rules.reducible(reduce_op)

    def compute() -> None:
        values = apply(op0, access.flat(data), numbers(operand0, data), reverse=reverse0)
        total = registers_after(values, reduce_op, reduce_cmd, reduce_init, data)
        access.write(dst, values)
        if reduce_res is not None:
            access.write(reduce_res, -total if reduce_res_negate else total)

    return step.run(compute)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Operator,
    op1: Operator,
    imm0: Operand,
    imm1: Operand = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """dst[i] = (src[i] op0 imm0) op1 dst[i-1]."""
    step = issue(
        "tensor_scalar_cumulative",
        "vector",
        {"dst": dst},
        {"src": src, "imm0": imm0, "imm1": imm1},
        name,
        {"op": f"{op0.name},{op1.name}"},
    )
    rules.on_chip(dst, src)
    rules.same_layout(dst, src)
    if op1.name not in ("add", "subtract", "multiply", "maximum", "minimum"):
        raise fault(OperatorFault, f"{op1!r}", None, "add, subtract, multiply, maximum or minimum")

    def compute() -> None:
        values = apply(op0, access.flat(src), numbers(imm0, src), reverse=False)
        rows = values.shape[0]
        core = current()
        if core.vector_registers is None:
            core.vector_registers = np.zeros(128, np.float32)
        kept = core.vector_registers
        if reduce_cmd.name == "reset_reduce":
            kept[:rows] = op1.start
        elif reduce_cmd.name == "load_reduce":
            kept[:rows] = np.broadcast_to(numbers(imm1, src), (rows, 1))[:, 0]
        result = np.empty(values.shape, np.float32)
        for n in range(values.shape[1]):
            kept[:rows] = op1.function(values[:, n], kept[:rows])
            result[:, n] = kept[:rows]
        access.write(dst, result)

    return step.run(compute)


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[P, 6] = (count, mean, variance x count) of the even and of the odd elements."""
    step = issue("bn_stats", "vector", {"dst": dst}, {"data": data}, name)
    rules.on_chip(dst, data)
    if data.free_size > 512:
        raise fault(ShapeFault, f"{data.free_size} elements", data, "512 in a partition")
    if dst.free_size != 6:
        raise fault(ShapeFault, f"{dst.free_size} elements", dst, "6 in a partition")

    def compute() -> None:
        values = access.flat(data)
        parts: list[Array] = []
        for half in (values[:, 0::2], values[:, 1::2]):
            count = half.shape[1]
            mean = half.mean(1) if count else np.zeros(len(half), np.float32)
            spread = half.var(1) * count if count else np.zeros(len(half), np.float32)
            parts += [np.full(len(half), count, np.float32), mean, spread]
        access.write(dst, np.stack(parts, 1))

    return step.run(compute)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[P, 2] = (mean, variance) from triples of bn_stats."""
    step = issue("bn_aggr", "vector", {"dst": dst}, {"data": data}, name)
    rules.on_chip(dst, data)
    if data.free_size % 3 or dst.free_size != 2:
        raise fault(ShapeFault, f"{data.free_size} elements", data, "triples, into 2 elements")

    def compute() -> None:
        triples = access.flat(data).reshape(data.shape[0], -1, 3)
        count, mean, spread = triples[..., 0], triples[..., 1], triples[..., 2]
        total = count.sum(1, keepdims=True)
        centre = (count * mean).sum(1, keepdims=True) / total
        variance = (spread + count * (mean - centre) ** 2).sum(1, keepdims=True) / total
        access.write(dst, np.concatenate([centre, variance], 1))

    return step.run(compute)
