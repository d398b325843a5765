"""Matrix products and transposes."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from neuronfleet.kernels.interpreter import access, dtypes, rules
from neuronfleet.kernels.interpreter.context import current
from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import (
    AccumulationFault,
    DtypeFault,
    NotInterpreted,
    PlatformFault,
    ShapeFault,
)
from neuronfleet.kernels.interpreter.isa.constants import engine, matmul_perf_mode
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.platforms import nc_version
from neuronfleet.kernels.interpreter.tensors import NkiTensor

_PRODUCTS = (
    dtypes.float8_e4m3, dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.bfloat16,
    dtypes.float16, dtypes.tfloat32, dtypes.float32,
)  # fmt: skip
_WIDE = (dtypes.float32, dtypes.tfloat32)
_ROW_TILES = (32, 64, 128)


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: matmul_perf_mode = matmul_perf_mode.none,
    name: str | None = None,
) -> NkiInstruction:
    """dst[M, N] = stationary[K, M]^T moving[K, N] in PSUM, or added onto it.

    `accumulate` None overwrites what no product has written and adds to the rest.
    """
    step = issue(
        "nc_matmul",
        "tensor",
        {"dst": dst},
        {"stationary": stationary, "moving": moving},
        name,
        {"perf_mode": perf_mode.value, "transpose": int(is_transpose)},
    )
    rules.region(dst, rules.PSUM)
    rules.region(stationary, rules.SBUF)
    rules.region(moving, rules.SBUF)
    _check_types(dst, stationary, moving, is_transpose=is_transpose)
    double = perf_mode is matmul_perf_mode.double_row
    _check_shapes(dst, stationary, moving, double=double)
    _check_tile(stationary, tuple(tile_position), tuple(tile_size))
    rules.on_chip(stationary, moving, dst)
    rules.one_bank(dst)

    def compute() -> None:
        product = _product(stationary, moving, double=double)
        if is_transpose:
            access.write(dst, product)
        else:
            _accumulate(dst, product.reshape(dst.shape), accumulate)

    return step.run(compute)


def _product(stationary: NkiTensor, moving: NkiTensor, *, double: bool) -> Array:
    left, right = access.floats(stationary), access.floats(moving)
    rows = left.shape[0] * (2 if double else 1)
    return np.asarray(left.reshape(rows, -1).T @ right.reshape(rows, -1))


def _accumulate(dst: NkiTensor, product: Array, accumulate: bool | None) -> None:
    view = access.resolve(dst)
    old = access.window(dst, view)
    storage = dst.storage
    if storage.matmul_written is None:
        storage.matmul_written = np.zeros(storage.size, np.bool_)
    started = as_strided(storage.matmul_written[view.offset :], view.shape, view.strides)
    if accumulate and not started.all():
        raise fault(
            AccumulationFault, "adds to what no matrix product has written", dst,
            "accumulate=False first",
        )  # fmt: skip
    if accumulate is False or not started.any():
        access.write(dst, product)
    elif started.all():
        access.write(dst, old.astype(np.float32) + product)
    else:
        access.write(dst, np.where(started, old.astype(np.float32) + product, product))
    started[...] = True


def _check_types(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, *, is_transpose: bool
) -> None:
    platform = current().settings.platform
    if is_transpose:
        rules.same_dtype(stationary, dst)
        return
    for tensor in (stationary, moving):
        rules.dtype(tensor, _PRODUCTS)
    if (stationary.dtype in _WIDE) != (moving.dtype in _WIDE):
        raise fault(
            DtypeFault, f"is {moving.dtype} with {stationary.dtype}", moving,
            "float32 pairs with float32",
        )  # fmt: skip
    kinds = {stationary.dtype, moving.dtype}
    if dtypes.float8_e4m3fn in kinds and dtypes.float8_e4m3 in kinds:
        raise fault(DtypeFault, "mixes float8_e4m3 with float8_e4m3fn", moving, "one of them")
    if dtypes.float8_e4m3fn in kinds and platform.version < nc_version.gen4:
        raise fault(PlatformFault, f"float8_e4m3fn on {platform.name}", moving, "trn3")
    allowed = (dtypes.float32, dtypes.bfloat16) if platform.bf16_accumulation else (dtypes.float32,)
    rules.dtype(dst, allowed)


def _check_shapes(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, *, double: bool
) -> None:
    platform = current().settings.platform
    if stationary.shape[0] != moving.shape[0]:
        raise fault(
            ShapeFault, f"contracts {moving.shape[0]} rows", moving, f"{stationary.shape[0]} rows"
        )
    if double:
        _check_double(stationary, moving)
    columns = stationary.free_size // (2 if double else 1)
    free = moving.free_size // (2 if double else 1)
    if columns > platform.partitions:
        raise fault(ShapeFault, f"{columns} free elements", stationary, "128 stationary columns")
    wide = platform.moving_free_max * (2 if dst.dtype == dtypes.bfloat16 else 1)
    if free > wide:
        raise fault(ShapeFault, f"{free} free elements", moving, f"{wide} moving columns")
    if (dst.shape[0], dst.free_size) != (columns, free):
        raise fault(ShapeFault, "does not fit the product", dst, f"({columns}, {free})")


def _check_double(stationary: NkiTensor, moving: NkiTensor) -> None:
    rules.since(nc_version.gen3)
    for tensor in (stationary, moving):
        rules.dtype(tensor, (dtypes.float8_e4m3, dtypes.float8_e5m2, dtypes.float8_e4m3fn))
        if tensor.ndim < 3 or tensor.shape[1] != 2:
            raise fault(ShapeFault, "has no pair of rows", tensor, "first free dimension of 2")


def _check_tile(stationary: NkiTensor, position: tuple[int, ...], size: tuple[int, ...]) -> None:
    if not position and not size:
        return
    if len(position) != 2 or len(size) != 2:
        raise fault(ShapeFault, f"tile {size} at {position}", None, "both of two numbers")
    for at, extent in zip(position, size, strict=True):
        if extent not in _ROW_TILES or at % extent or at + extent > 128:
            raise fault(ShapeFault, f"tile {size} at {position}", None, "tiles of 32, 64 or 128")
    if stationary.shape[0] > size[0] or stationary.free_size > size[1]:
        raise fault(ShapeFault, f"exceeds the PE tile at {position}", stationary, f"{size}")


def nc_transpose(
    dst: NkiTensor,
    data: NkiTensor,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst[F, P] = data[P, F]^T: by the PE from SBUF to PSUM, or by Vector up to 32 x 32."""
    queue = _transpose_queue(dst, data, engine.name)
    step = issue("nc_transpose", queue, {"dst": dst}, {"data": data}, name)
    limit = 32 if queue == "vector" else 128
    for extent in (data.shape[0], data.free_size):
        if extent > limit:
            raise fault(ShapeFault, f"{extent} elements", data, f"{limit} x {limit} on {queue}")
    if (dst.shape[0], dst.free_size) != (data.free_size, data.shape[0]):
        raise fault(
            ShapeFault, "is not the transposed shape", dst, f"{(data.free_size, data.shape[0])}"
        )
    rules.same_dtype(data, dst)
    if queue == "tensor":
        rules.region(data, rules.SBUF)
        rules.region(dst, rules.PSUM)
        rules.one_bank(dst)
    rules.on_chip(dst, data)
    return step.run(
        lambda: access.write(dst, access.read(data).reshape(data.shape[0], -1).T.copy())
    )


def _transpose_queue(dst: NkiTensor, data: NkiTensor, chosen: str) -> str:
    if chosen != "unknown":
        return chosen
    small = max(data.shape[0], data.free_size) <= 32
    through_psum = data.buffer is rules.SBUF and dst.buffer is rules.PSUM
    return "tensor" if through_psum or not small else "vector"


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """A product of micro-scaled operands, which trn3 has: not interpreted."""
    issue("nc_matmul_mx", "tensor", {"dst": dst}, {"stationary": stationary}, name)
    rules.since(nc_version.gen4)
    raise fault(NotInterpreted, "micro-scaled products")
