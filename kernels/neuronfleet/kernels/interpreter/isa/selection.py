"""Masks, indices and order: what picks elements by place or by rank."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.dtypes import Array, convert
from neuronfleet.kernels.interpreter.faults import OutOfBounds, ShapeFault
from neuronfleet.kernels.interpreter.isa.constants import reduce_cmd
from neuronfleet.kernels.interpreter.isa.reductions import registers_after
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.operators import BINARY, Operator
from neuronfleet.kernels.interpreter.tensors import NkiTensor

Pattern = Sequence[Sequence[int]]
_MAXIMUM = BINARY["maximum"]
_EQUAL = BINARY["equal"]


def _affine(rows: int, pattern: Pattern, offset: int, multiplier: int) -> npt.NDArray[np.int64]:
    """Offset + partition x multiplier + the pattern's steps: [rows, counts...]."""
    grid = np.arange(rows, dtype=np.int64).reshape([-1] + [1] * len(pattern)) * multiplier + offset
    for dim, (step, count) in enumerate(pattern):
        line = np.arange(int(count), dtype=np.int64) * int(step)
        grid = grid + line.reshape([1] * (dim + 1) + [-1] + [1] * (len(pattern) - dim - 1))
    return grid


def _check_pattern(dst: NkiTensor, pattern: Pattern) -> None:
    count = int(np.prod([int(n) for _, n in pattern]))
    if count != dst.free_size or len(pattern) > 4:
        raise fault(
            ShapeFault, f"pattern of {count} elements", dst, f"{dst.free_size}, at most 4-D"
        )


def iota(
    dst: NkiTensor,
    pattern: Pattern,
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = offset + partition x channel_multiplier + the pattern's steps."""
    step = issue("iota", "gpsimd", {"dst": dst}, {}, name)
    rules.gpsimd(dst)
    _check_pattern(dst, pattern)
    return step.run(
        lambda: access.write(dst, _affine(dst.shape[0], pattern, int(offset), channel_multiplier))
    )


def affine_select(
    dst: NkiTensor,
    pattern: Pattern,
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Operator = _EQUAL,
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = on_true_tile where the affine value compares with 0, else one number."""
    reads = {"on_true_tile": on_true_tile}
    step = issue("affine_select", "gpsimd", {"dst": dst}, reads, name, {"op": cmp_op.name})
    rules.gpsimd(dst, on_true_tile)
    rules.same_layout(dst, on_true_tile)
    _check_pattern(dst, pattern)

    def compute() -> None:
        grid = _affine(dst.shape[0], pattern, int(offset), channel_multiplier)
        chosen = cmp_op.function(grid, 0).reshape(dst.shape[0], -1) != 0
        access.write(dst, np.where(chosen, access.flat(on_true_tile), np.float32(on_false_value)))

    return step.run(compute)


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Operator,
    comp_op1: Operator,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Operator = _MAXIMUM,
    range_start: float = 0,
    on_false_value: float = float(np.finfo(np.float32).min),
    name: str | None = None,
) -> NkiInstruction:
    """Dst = on_true_tile where (i comp_op0 bound0) and (i comp_op1 bound1), i from range_start."""
    step = issue(
        "range_select",
        "vector",
        {"dst": dst, "reduce_res": reduce_res},
        {"on_true_tile": on_true_tile, "bound0": bound0, "bound1": bound1},
        name,
    )
    rules.on_chip(dst, on_true_tile, reduce_res)
    rules.same_layout(dst, on_true_tile)
    rules.column(bound0, on_true_tile)
    rules.column(bound1, on_true_tile)

    def compute() -> None:
        place = np.float32(range_start) + np.arange(dst.free_size, dtype=np.float32)
        first = comp_op0.function(place, access.flat(bound0)) != 0
        second = comp_op1.function(place, access.flat(bound1)) != 0
        values = np.where(first & second, access.flat(on_true_tile), np.float32(on_false_value))
        total = registers_after(values, reduce_op, reduce_cmd, None, on_true_tile)
        access.write(dst, values)
        if reduce_res is not None:
            access.write(reduce_res, total)

    return step.run(compute)


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: float | NkiTensor,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Operator = _MAXIMUM,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = on_true where the predicate is not 0, else on_false; and its reduction."""
    step = issue(
        "select_reduce",
        "vector",
        {"dst": dst, "reduce_res": reduce_res},
        {"predicate": predicate, "on_true": on_true, "on_false": on_false},
        name,
    )
    rules.on_chip(dst, predicate, on_true, reduce_res)
    rules.same_layout(dst, predicate, on_true)

    def compute() -> None:
        chosen = (access.flat(predicate) != 0) ^ reverse_pred
        other = access.flat(on_false) if isinstance(on_false, NkiTensor) else np.float32(on_false)
        values = np.where(chosen, access.flat(on_true), other)
        total = registers_after(values, reduce_op, reduce_cmd, None, on_true)
        access.write(dst, values)
        if reduce_res is not None:
            access.write(reduce_res, total)

    return step.run(compute)


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[P, 8] = the eight largest of each partition, descending."""
    step = issue("max8", "vector", {"dst": dst}, {"src": src}, name)
    rules.on_chip(dst, src)
    if not 8 <= src.free_size <= 16384:
        raise fault(ShapeFault, f"{src.free_size} elements", src, "8..16384 in a partition")
    if (dst.shape[0], dst.free_size) != (src.shape[0], 8):
        raise fault(ShapeFault, "does not hold eight a partition", dst, f"({src.shape[0]}, 8)")
    return step.run(lambda: access.write(dst, -np.sort(-access.flat(src), axis=1)[:, :8]))


def _matches(data: Array, values: Array, *, ascending: bool) -> npt.NDArray[np.int64]:
    """Place of each of eight values in its row, -1 where it is not; equal values take turns.

    The n-th of equal values gets the n-th place where it occurs; counted from the last value
    where not ascending.
    """
    order = range(8) if ascending else range(7, -1, -1)
    left = np.ones(data.shape, np.bool_)
    places = np.full((data.shape[0], 8), -1, np.int64)
    rows = np.arange(data.shape[0])
    for n in order:
        hits = (data == values[:, n : n + 1]) & left
        found = hits.any(1)
        first = hits.argmax(1)
        places[found, n] = first[found]
        left[rows[found], first[found]] = False
    return places


def _check_eight(data: NkiTensor, vals: NkiTensor) -> None:
    if not 8 <= data.free_size <= 16384:
        raise fault(ShapeFault, f"{data.free_size} elements", data, "8..16384 in a partition")
    if (vals.shape[0], vals.free_size) != (data.shape[0], 8):
        raise fault(ShapeFault, "does not hold eight a partition", vals, f"({data.shape[0]}, 8)")


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """dst[P, 8] = where each of eight values is in data; all ones where it is not."""
    step = issue("nc_find_index8", "vector", {"dst": dst}, {"data": data, "vals": vals}, name)
    rules.on_chip(dst, data, vals)
    _check_eight(data, vals)

    def compute() -> None:
        places = _matches(access.flat(data), access.flat(vals), ascending=True)
        access.write(dst, places.astype(dst.dtype.numpy))

    return step.run(compute)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = data with the first match of each of eight values replaced; their places too."""
    step = issue(
        "nc_match_replace8", "vector", {"dst": dst, "dst_idx": dst_idx},
        {"data": data, "vals": vals}, name,
    )  # fmt: skip
    rules.on_chip(dst, data, vals, dst_idx)
    _check_eight(data, vals)

    def compute() -> None:
        values = access.flat(data).copy()
        places = _matches(values, access.flat(vals), ascending=False)
        row, column = np.nonzero(places >= 0)
        values[row, places[row, column]] = imm
        access.write(dst, values)
        if dst_idx is not None:
            access.write(dst_idx, places.astype(dst_idx.dtype.numpy))

    return step.run(compute)


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]], free dimensions flattened."""
    step = issue("nc_n_gather", "gpsimd", {"dst": dst}, {"data": data, "indices": indices}, name)
    rules.gpsimd(dst, data, indices)
    rules.same_dtype(data, dst)
    rules.same_layout(dst, indices)

    def compute() -> None:
        rows = data.shape[0]
        places = access.read(indices).reshape(rows, -1).astype(np.int64)
        if places.size and places.max() >= data.free_size:
            raise fault(OutOfBounds, f"index {places.max()}", indices, f"0..{data.free_size - 1}")
        access.write(dst, np.take_along_axis(access.read(data).reshape(rows, -1), places, 1))

    return step.run(compute)


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each GpSimd core gathers columns of its 16 partitions by indices spread over them."""
    reads = {"src_buffer": src_buffer, "index": index}
    step = issue("local_gather", "gpsimd", {"dst": dst}, reads, name)
    rules.gpsimd(dst, src_buffer, index)
    rules.same_dtype(src_buffer, dst)
    if src_buffer.shape[0] != index.shape[0] or index.shape[0] % 16:
        raise fault(ShapeFault, f"{index.shape[0]} partitions", index, "as many as src, times 16")
    if num_elem_per_idx not in (1, 2, 4, 8, 16, 32):
        raise fault(ShapeFault, f"{num_elem_per_idx} elements an index", None, "1, 2, 4, 8, 16, 32")

    def compute() -> None:
        groups = index.shape[0] // 16
        source = access.read(src_buffer).reshape(groups, 16, -1)
        places = access.read(index).reshape(groups, 16, -1).astype(np.int64)
        order = places.transpose(0, 2, 1).reshape(groups, -1)[:, :num_valid_indices]
        columns = (order * num_elem_per_idx)[..., None] + np.arange(num_elem_per_idx)
        columns = columns.reshape(groups, 1, -1)[:, :, : dst.free_size]
        if columns.size and columns.max() >= source.shape[2]:
            raise fault(OutOfBounds, f"column {columns.max()}", index, f"0..{source.shape[2] - 1}")
        found = np.take_along_axis(
            source, np.broadcast_to(columns, (groups, 16, columns.shape[2])), 2
        )
        view = access.resolve(dst)
        target = access.window(dst, view)
        merged = target.reshape(dst.shape[0], -1).copy()
        merged[:, : found.shape[2]] = found.reshape(dst.shape[0], -1)
        target[...] = merged.reshape(dst.shape)
        chosen = np.zeros((dst.shape[0], dst.free_size), np.bool_)
        chosen[:, : found.shape[2]] = True
        access.mark_where(dst, view, chosen.reshape(dst.shape))

    return step.run(compute)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """Places of what is not 0, then padding, then their number, for every 16th partition."""
    step = issue("nonzero_with_count", "gpsimd", {"dst": dst}, {"src": src}, name)
    rules.gpsimd(dst, src)
    if dst.free_size != src.free_size + 1:
        raise fault(ShapeFault, f"{dst.free_size} elements", dst, f"{src.free_size + 1}")

    def compute() -> None:
        values = access.flat(src[0 : src.shape[0] : 16]) != 0
        width = values.shape[1]
        order = np.argsort(~values, axis=1, kind="stable")
        count = values.sum(1, keepdims=True)
        places = np.where(np.arange(width) < count, order + index_offset, padding_val)
        result = np.concatenate([places, count], 1)
        rows = np.arange(dst.shape[0]) % 16 == 0
        view = access.resolve(dst)
        stored = convert(result, dst.dtype).reshape(-1, *dst.shape[1:])
        access.window(dst, view)[rows] = stored
        chosen = np.zeros(dst.shape, np.bool_)
        chosen[rows] = True
        access.mark_where(dst, view, chosen)

    return step.run(compute)
