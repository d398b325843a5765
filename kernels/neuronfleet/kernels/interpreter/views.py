"""Arithmetic of strided views: shape, strides and offset, all in elements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from types import EllipsisType

from neuronfleet.kernels.interpreter.faults import OutOfBounds, ShapeFault, kernel_place

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DynamicSlice:
    """`nl.ds(start, size)`."""

    start: int
    size: int


Key = int | slice | DynamicSlice | EllipsisType


@dataclass(frozen=True, slots=True)
class View:
    """Where the elements of a tensor lie in its storage."""

    shape: Ints
    strides: Ints
    offset: int = 0

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def bounds(self) -> tuple[int, int]:
        """First element and one past the last; negative strides count downwards."""
        low = high = self.offset
        for count, stride in zip(self.shape, self.strides, strict=True):
            reach = (count - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + 1


def dense(shape: Ints) -> Ints:
    """Row-major strides."""
    strides: list[int] = []
    for n in range(len(shape)):
        strides.append(prod(shape[n + 1 :]))
    return tuple(strides)


def index(view: View, keys: tuple[Key, ...], *, on_chip: bool) -> View:
    """`tensor[keys]`. An integer on the partition dimension keeps it, with one element.

    Raises:
        OutOfBounds: For an index or slice beyond the dimension.
    """
    keys = _whole(keys, len(view.shape))
    shape: list[int] = []
    strides: list[int] = []
    offset = view.offset
    dropped = False
    for dim, key in enumerate(keys):
        count, stride = view.shape[dim], view.strides[dim]
        start, number, step = _range(key, dim, count)
        offset += start * stride
        if isinstance(key, slice | DynamicSlice) or (on_chip and dim == 0):
            shape.append(number)
            strides.append(stride * step)
        else:
            dropped = True
    least = 2 if on_chip else 1
    while dropped and len(shape) < least:
        shape.append(1)
        strides.append(1)
    return View(tuple(shape), tuple(strides), offset)


def _whole(keys: tuple[Key, ...], ndim: int) -> tuple[Key, ...]:
    """Keys for every dimension: the ellipsis expanded, the rest filled up."""
    spots = [n for n, key in enumerate(keys) if isinstance(key, EllipsisType)]
    if len(keys) - len(spots) > ndim:
        raise ShapeFault(f"{len(keys)} indices for {ndim} dimensions", place=kernel_place())
    missing = (slice(None),) * (ndim - len(keys) + len(spots))
    if not spots:
        return keys + missing
    return keys[: spots[0]] + missing + keys[spots[0] + 1 :]


def _range(key: Key, dim: int, count: int) -> tuple[int, int, int]:
    """(start, number, step) of one key.

    Raises:
        OutOfBounds: Beyond `count`.
    """
    if isinstance(key, DynamicSlice):
        key = slice(key.start, key.start + key.size)
    if isinstance(key, slice):
        if key.stop is not None and int(key.stop) > count:
            raise OutOfBounds(
                f"slice to {key.stop} of dimension {dim}", limit=f"{count} elements",
                place=kernel_place(),
            )  # fmt: skip
        start, stop, step = key.indices(count)
        return start, max(0, -(-(stop - start) // step)), step
    place = int(key)  # type: ignore[arg-type]
    place += count if place < 0 else 0
    if not 0 <= place < count:
        raise OutOfBounds(
            f"index {key} of dimension {dim}", limit=f"{count} elements", place=kernel_place()
        )
    return place, 1, 1


def permute(view: View, dims: Sequence[int], *, on_chip: bool) -> View:
    """Dimensions in another order; on chip the partition dimension stays first."""
    if sorted(dims) != list(range(len(view.shape))):
        raise ShapeFault(f"{tuple(dims)} is no permutation", shape=view.shape, place=kernel_place())
    if on_chip and dims[0] != 0:
        raise ShapeFault("moves the partition dimension", shape=view.shape, place=kernel_place())
    return View(
        tuple(view.shape[d] for d in dims), tuple(view.strides[d] for d in dims), view.offset
    )


def broadcast(view: View, dim: int, size: int) -> View:
    """A dimension of one element repeated, with stride 0."""
    if view.shape[dim] != 1:
        raise ShapeFault(
            f"cannot broadcast dimension {dim}", shape=view.shape, place=kernel_place()
        )
    return replace(
        view,
        shape=(*view.shape[:dim], size, *view.shape[dim + 1 :]),
        strides=(*view.strides[:dim], 0, *view.strides[dim + 1 :]),
    )


def expand(view: View, dim: int) -> View:
    """A new dimension of one element."""
    return replace(
        view,
        shape=(*view.shape[:dim], 1, *view.shape[dim:]),
        strides=(*view.strides[:dim], 1, *view.strides[dim:]),
    )


def squeeze(view: View, dim: int) -> View:
    """Without a dimension of one element."""
    if view.shape[dim] != 1:
        raise ShapeFault(f"cannot squeeze dimension {dim}", shape=view.shape, place=kernel_place())
    return drop(view, dim)


def drop(view: View, dim: int, at: int = 0) -> View:
    """Without a dimension, at one index of it."""
    return View(
        view.shape[:dim] + view.shape[dim + 1 :],
        view.strides[:dim] + view.strides[dim + 1 :],
        view.offset + at * view.strides[dim],
    )


def split(view: View, dim: int, sizes: Sequence[int]) -> View:
    """One dimension as several; one size may be -1."""
    known = prod(n for n in sizes if n != -1)
    sizes = tuple(view.shape[dim] // known if n == -1 else int(n) for n in sizes)
    if prod(sizes) != view.shape[dim]:
        raise ShapeFault(
            f"cannot split dimension {dim} into {sizes}", shape=view.shape, place=kernel_place()
        )
    inner = tuple(n * view.strides[dim] for n in dense(sizes))
    return replace(
        view,
        shape=view.shape[:dim] + sizes + view.shape[dim + 1 :],
        strides=view.strides[:dim] + inner + view.strides[dim + 1 :],
    )


def merge(view: View, first: int, last: int) -> View:
    """Dimensions first..last as one; they must lie behind each other."""
    shape = (*view.shape[:first], prod(view.shape[first : last + 1]), *view.shape[last + 1 :])
    return reshape(view, shape)


def reshape(view: View, shape: Ints) -> View:
    """The same elements under another shape, without a copy.

    Raises:
        ShapeFault: Where sizes differ or the strides do not allow it.
    """
    if prod(shape) != view.size:
        raise ShapeFault(
            f"cannot become {shape}: {prod(shape)} elements", shape=view.shape, place=kernel_place()
        )
    strides = [0] * len(shape)
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    new = [n for n in range(len(shape)) if shape[n] != 1]
    i = 0
    while i < len(old):
        # The shortest runs of old and new dimensions that hold the same elements.
        j, have = i + 1, old[i][0]
        group, want = [new.pop(0)], 0
        want = shape[group[0]]
        while have != want:
            if have < want:
                have *= old[j][0]
                j += 1
            else:
                group.append(new.pop(0))
                want *= shape[group[-1]]
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(i, j - 1)):
            raise ShapeFault(
                f"cannot become {shape} without a copy, strides {view.strides}",
                shape=view.shape, place=kernel_place(),
            )  # fmt: skip
        step = old[j - 1][1]
        for dim in reversed(group):
            strides[dim] = step
            step *= shape[dim]
        i = j
    return View(shape, _ones(shape, strides), view.offset)


def _ones(shape: Ints, strides: list[int]) -> Ints:
    """Dimensions of one element get the stride they would have if dense."""
    following = 1
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            strides[dim] = following
        following = strides[dim] * shape[dim]
    return tuple(strides)


def reinterpret(view: View, before: int, after: int) -> View:
    """The view for elements of `after` bytes in place of `before`.

    Raises:
        ShapeFault: Where bytes do not come out even or the last dimension has gaps.
    """
    if before == after:
        return view
    bytes_of = [s * before for s in view.strides[:-1]]
    last = view.shape[-1] * before
    uneven = last % after or any(b % after for b in bytes_of) or view.offset * before % after
    if uneven or (view.strides[-1] != 1 and view.shape[-1] != 1):
        raise ShapeFault(
            f"elements of {before} bytes cannot be seen as {after}", shape=view.shape,
            place=kernel_place(),
        )  # fmt: skip
    return View(
        (*view.shape[:-1], last // after),
        (*(b // after for b in bytes_of), 1),
        view.offset * before // after,
    )
