"""Copies by the DMA engines: between HBM and SBUF, converted, gathered, scattered, transposed."""

from collections.abc import Sequence

import numpy as np

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.dtypes import convert
from neuronfleet.kernels.interpreter.faults import (
    BufferFault,
    DtypeFault,
    OperatorFault,
    ShapeFault,
)
from neuronfleet.kernels.interpreter.isa import constants
from neuronfleet.kernels.interpreter.isa.constants import dge_mode, engine, name_of, oob_mode
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.operators import BINARY, Operator
from neuronfleet.kernels.interpreter.platforms import nc_version
from neuronfleet.kernels.interpreter.tensors import NkiTensor

_SOURCES_MAX = 16
_PERMUTATIONS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = src, element by element in row-major order; types convert through float32."""
    mode = name_of(constants.dge_mode, dge_mode)
    step = issue("dma_copy", "dma", {"dst": dst}, {"src": src}, name, {"dge": mode})
    _reachable(dst, src)
    rules.same_size(dst, src)
    _check_mode(dst, src, mode)
    skip = name_of(constants.oob_mode, oob_mode) == "skip"
    return step.run(lambda: _copy(dst, src, skip=skip))


def _copy(dst: NkiTensor, src: NkiTensor, *, skip: bool) -> None:
    if not skip or not (src.is_indirect() or dst.is_indirect()):
        access.write(dst, access.read(src))
        return
    if dst.is_indirect():
        if access.reachable(dst).any():
            access.write(dst, access.read(src), skip=True)
        return
    inside = access.reachable(src)
    if inside.all():
        access.write(dst, access.read(src))
    elif inside.any():
        values = convert(access.read(src, skip=True), dst.dtype).reshape(dst.shape)
        view = access.resolve(dst)
        target = access.window(dst, view)
        chosen = inside.reshape(dst.shape)
        target[chosen] = values[chosen]
        access.mark_where(dst, view, chosen)


def _reachable(*tensors: NkiTensor) -> None:
    for tensor in tensors:
        if tensor.buffer is rules.PSUM:
            raise fault(BufferFault, "is in psum", tensor, "DMA reaches HBM and SBUF")


def _check_mode(dst: NkiTensor, src: NkiTensor, mode: str) -> None:
    if mode == "hwdge":
        rules.since(nc_version.gen3)
        if dst.dtype != src.dtype:
            raise fault(DtypeFault, f"is {src.dtype}", src, f"{dst.dtype}: hwdge does not convert")
        for tensor in (dst, src):
            if tensor.indirection is not None and tensor.indirection.vector:
                raise fault(
                    BufferFault, "gathers under hwdge", tensor, "swdge gathers and scatters"
                )


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = src with its first and last dimensions exchanged: 2-D, 3-D (2,1,0) or 4-D (3,1,2,0)."""
    mode = name_of(constants.dge_mode, dge_mode)
    step = issue("dma_transpose", "dma", {"dst": dst}, {"src": src}, name, {"dge": mode})
    _reachable(dst, src)
    rules.same_size(dst, src)
    order = _PERMUTATIONS.get(src.ndim)
    if order is None or (axes is not None and tuple(axes) != order):
        raise fault(ShapeFault, f"axes {axes}", src, "(1,0), (2,1,0) or (3,1,2,0)")
    rules.same_dtype(src, dst)
    if mode == "hwdge" and (src.dtype.itemsize != 2 or src.shape[-1] > 128):
        raise fault(
            ShapeFault, f"{src.dtype} under hwdge", src, "2-byte types, last dimension <= 128"
        )
    return step.run(lambda: access.write(dst, access.read(src).transpose(order)))


def dma_compute(
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Operator,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = the sum of up to 16 sources, in float32; with indices a read-modify-write."""
    reads = {f"srcs[{n}]": one for n, one in enumerate(srcs)}
    step = issue("dma_compute", "dma", {"dst": dst}, reads, name, {"op": reduce_op.name})
    _reachable(dst, *srcs)
    if len(srcs) > _SOURCES_MAX:
        raise fault(ShapeFault, f"{len(srcs)} sources", None, f"{_SOURCES_MAX} sources")
    rules.same_size(dst, *srcs)
    if reduce_op != BINARY["add"]:
        raise fault(OperatorFault, f"{reduce_op!r}", None, "nl.add")
    if scales is not None and any(one != 1.0 for one in scales):
        raise fault(OperatorFault, f"scales {scales}", None, "1.0 for every source")
    skip = name_of(constants.oob_mode, oob_mode) == "skip"

    def compute() -> None:
        total = np.zeros(dst.shape, np.float32)
        for one in srcs:
            total += access.read(one, skip=skip).astype(np.float32).reshape(dst.shape)
        access.write(dst, total, skip=skip)

    return step.run(compute)
