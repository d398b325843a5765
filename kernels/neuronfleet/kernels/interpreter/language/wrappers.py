"""Experimental wrappers that return tensors: each is an instruction or a few."""

from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter import access
from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import (
    LanguageFault,
    NotInterpreted,
    ShapeFault,
    kernel_place,
)
from neuronfleet.kernels.interpreter.isa.activations import activation
from neuronfleet.kernels.interpreter.isa.dma import dma_copy, dma_transpose
from neuronfleet.kernels.interpreter.isa.elementwise import tensor_scalar, tensor_tensor
from neuronfleet.kernels.interpreter.isa.reductions import tensor_reduce
from neuronfleet.kernels.interpreter.isa.tensor_engine import nc_matmul, nc_transpose
from neuronfleet.kernels.interpreter.issue import issue
from neuronfleet.kernels.interpreter.language.allocation import ndarray
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.operators import BINARY, Operator
from neuronfleet.kernels.interpreter.tensors import NkiTensor


def elementwise(op: Operator, operands: tuple[Any, ...], dtype: object) -> NkiTensor:
    """`op` on tensors of one shape, or a tensor and a number."""
    first = operands[0]
    if op.unary:
        result = ndarray(first.shape, dtype or first.dtype)
        activation(result, op, first)
        return result
    second = operands[1]
    reverse = not isinstance(first, NkiTensor)
    data, other = (second, first) if reverse else (first, second)
    if not isinstance(data, NkiTensor):
        raise LanguageFault(f"{op!r} of two numbers", place=kernel_place())
    result = ndarray(data.shape, dtype or data.dtype)
    if isinstance(other, NkiTensor):
        if other.shape != data.shape:
            raise ShapeFault(
                f"{op!r} does not broadcast {other.shape}", shape=data.shape, place=kernel_place()
            )
        tensor_tensor(result, data, other, op)
    else:
        tensor_scalar(result, data, op, other, reverse0=reverse)
    return result


def load(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """A copy in SBUF."""
    result = ndarray(src.shape, dtype or src.dtype)
    dma_copy(result, src)
    return result


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Copy to HBM."""
    dma_copy(dst, value)


def load_transpose2d(src: NkiTensor, dtype: object = None) -> NkiTensor:
    """A transposed copy in SBUF."""
    result = ndarray(src.shape[::-1], dtype or src.dtype)
    dma_transpose(result, src)
    return result


def broadcast_to(x: NkiTensor, shape: tuple[int, ...], dtype: object = None) -> NkiTensor:
    """X repeated over dimensions of one element; on chip over partitions by the PE."""
    result = ndarray(shape, dtype or x.dtype)
    step = issue("broadcast_to", "tensor", {"dst": result}, {"src": x})
    step.run(lambda: access.write(result, np.broadcast_to(access.read(x), result.shape)))
    return result


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a new dimension."""
    return x.expand_dim(axis)


def transpose(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The transposed tile, in PSUM."""
    result = ndarray(x.shape[::-1], dtype or x.dtype, MemoryRegion.psum)
    nc_transpose(result, x)
    return result


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """x^T y in PSUM, x being [K, M] already: transpose_x must be True."""
    if not transpose_x:
        raise LanguageFault("matmul without transpose_x", place=kernel_place(), limit="x is [K, M]")
    result = ndarray((x.shape[1], y.shape[1]), "float32", MemoryRegion.psum)
    nc_matmul(result, x, y)
    return result


def where(condition: NkiTensor, x: Any, y: Any, dtype: object = None) -> NkiTensor:
    """X where the condition is not 0, else y."""
    kind = dtype or next(v for v in (x, y, condition) if isinstance(v, NkiTensor)).dtype
    result = ndarray(condition.shape, kind)
    reads = {"condition": condition, "x": x, "y": y}

    def values(operand: Any) -> Any:
        return access.floats(operand) if isinstance(operand, NkiTensor) else np.float32(operand)

    step = issue("where", "vector", {"dst": result}, reads)
    step.run(
        lambda: access.write(result, np.where(access.floats(condition) != 0, values(x), values(y)))
    )
    return result


def _reduced(op: str, x: NkiTensor, axis: Any, dtype: object, keepdims: bool) -> NkiTensor:
    """X reduced over free axes; trailing axes by one instruction, others through a view."""
    axes = sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else tuple(axis)))
    kept = [n for n in range(x.ndim) if n not in axes]
    moved = x.permute((*kept, *axes))
    shape = [1 if n in axes else x.shape[n] for n in range(x.ndim)]
    short = [x.shape[n] for n in kept]
    final = shape if keepdims or len(short) < 2 else short
    result = ndarray(final, dtype or x.dtype)
    tensor_reduce(result, BINARY[op], moved, tuple(range(len(kept), x.ndim)))
    return result


def sum(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Sum over free axes."""
    return _reduced("add", x, axis, dtype, keepdims)


def max(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Largest over free axes."""
    return _reduced("maximum", x, axis, dtype, keepdims)


def min(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Smallest over free axes."""
    return _reduced("minimum", x, axis, dtype, keepdims)


def prod(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Product over free axes."""
    return _reduced("multiply", x, axis, dtype, keepdims)


def all(x: NkiTensor, axis: Any, dtype: object = None) -> NkiTensor:
    """Whether all are not 0."""
    return _reduced("logical_and", x, axis, dtype, False)


def mean(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Mean over free axes."""
    total = _reduced("add", x, axis, "float32", keepdims)
    count = x.size // total.size
    result = ndarray(total.shape, dtype or x.dtype)
    tensor_scalar(result, total, BINARY["multiply"], 1.0 / count)
    return result


def _composed(opcode: str, dtype: object, compute: Any, **reads: Any) -> NkiTensor:
    """A wrapper that the library makes of several instructions, here one record."""
    x = reads["x"]
    result = ndarray(x.shape, dtype or x.dtype)
    step = issue(opcode, "vector", {"dst": result}, reads)
    step.run(lambda: access.write(result, compute()))
    return result


def softmax(x: NkiTensor, axis: Any = -1, dtype: object = None) -> NkiTensor:
    """exp(x - max) / sum over one axis."""

    def compute() -> Array:
        values = access.floats(x)
        powers = np.exp(values - values.max(axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis, keepdims=True))

    return _composed("softmax", dtype, compute, x=x)


def rms_norm(
    x: NkiTensor,
    w: NkiTensor | None,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: object = None,
    compute_dtype: object = None,
) -> NkiTensor:
    """X / sqrt(sum(x^2) / n + epsilon) x w."""

    def compute() -> Array:
        values = access.floats(x)
        scale = 1 / np.sqrt((values * values).sum(axis, keepdims=True) / n + epsilon)
        weights = access.floats(w) if w is not None else np.float32(1)
        return np.asarray(values * scale * weights)

    return _composed("rms_norm", dtype, compute, x=x, w=w)


def var(x: NkiTensor, axis: Any, dtype: object = None, keepdims: bool = False) -> NkiTensor:
    """Variance: not interpreted; bn_stats computes it."""
    raise NotInterpreted("nl.var", place=kernel_place())


def dropout(x: NkiTensor, rate: Any, dtype: object = None) -> NkiTensor:
    """Random zeros: not interpreted."""
    raise NotInterpreted("nl.dropout", place=kernel_place())


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: object = None
) -> NkiTensor:
    """A gather in each partition: not interpreted; nc_n_gather is."""
    raise NotInterpreted("nl.gather_flattened", place=kernel_place())


def random_seed(seed: Any) -> None:
    """The generator's seed: not interpreted."""
    raise NotInterpreted("nl.random_seed", place=kernel_place())


def rand(
    shape: Any, dtype: object, buffer: MemoryRegion = MemoryRegion.sbuf, name: str = ""
) -> NkiTensor:
    """Random numbers: not interpreted."""
    raise NotInterpreted("nl.rand", place=kernel_place())
