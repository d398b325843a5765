"""Reading and writing tensors: strided NumPy views, gathers, and the written flags."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from neuronfleet.kernels.interpreter.context import Unwritten, current
from neuronfleet.kernels.interpreter.dtypes import Array, convert
from neuronfleet.kernels.interpreter.faults import OutOfBounds, ShapeFault, UninitialisedRead
from neuronfleet.kernels.interpreter.issue import fault
from neuronfleet.kernels.interpreter.registers import VirtualRegister
from neuronfleet.kernels.interpreter.tensors import NkiTensor
from neuronfleet.kernels.interpreter.views import View

Bools = npt.NDArray[np.bool_]


def read(tensor: NkiTensor, *, skip: bool = False) -> Array:
    """The elements, as a view of the storage where the address is no vector.

    With `skip`, elements at an address out of bounds read as 0 (see `reachable`).

    Raises:
        OutOfBounds: For an address outside of the storage.
        UninitialisedRead: For elements that nothing has written.
    """
    if tensor.indirection is not None and tensor.indirection.vector:
        return _gather(tensor, skip=skip)
    view = resolve(tensor)
    _check_written(tensor, view)
    return window(tensor, view)


def floats(tensor: NkiTensor) -> npt.NDArray[np.float32]:
    """The elements as an engine sees them: float32, in the tensor's shape."""
    with np.errstate(invalid="ignore"):
        return read(tensor).astype(np.float32)


def flat(tensor: NkiTensor) -> npt.NDArray[np.float32]:
    """The elements as float32, [partitions, elements in each]."""
    return floats(tensor).reshape(tensor.shape[0], -1)


def write(tensor: NkiTensor, values: npt.ArrayLike, *, skip: bool = False) -> None:
    """Convert and store; values may have any shape of as many elements."""
    stored = convert(values, tensor.dtype).reshape(tensor.shape)
    if tensor.indirection is not None and tensor.indirection.vector:
        where, inside = _addresses(tensor, skip=skip)
        _flat(tensor)[where[inside]] = stored[inside]
        flags = tensor.storage.flags(tensor.dtype.itemsize)
        if flags is not None:
            _expand(flags, tensor)[where[inside]] = True
        return
    view = resolve(tensor)
    window(tensor, view)[...] = stored
    _mark(tensor, view)


def mark(tensor: NkiTensor) -> None:
    """Count a tensor as written without writing it; an indirect one as a whole."""
    if tensor.indirection is not None:
        tensor.storage.written = None
        return
    _mark(tensor, resolve(tensor))


def check(tensor: NkiTensor) -> None:
    """Fault where a tensor is not written; one at a vector of addresses is not looked at."""
    if tensor.indirection is None or not tensor.indirection.vector:
        _check_written(tensor, resolve(tensor))


def resolve(tensor: NkiTensor) -> View:
    """The view with a scalar offset added, inside of its storage."""
    view = tensor.layout
    found = tensor.indirection
    if found is not None and not found.vector:
        view = View(view.shape, view.strides, view.offset + scalar(found.source) * found.stride)
    low, high = view.bounds
    limit = tensor.storage.nbytes // tensor.dtype.itemsize
    if view.size and (low < 0 or high > limit):
        raise fault(OutOfBounds, f"elements {low}..{high - 1}", tensor, f"0..{limit - 1}")
    if tensor.on_chip and current().settings.strict:
        _inside_partition(tensor, view)
    return view


def _inside_partition(tensor: NkiTensor, view: View) -> None:
    """Free elements must not run into the next partition."""
    row = tensor.storage.row_bytes // tensor.dtype.itemsize
    if not view.size or not row:
        return
    free = View(view.shape[1:], view.strides[1:], view.offset % row)
    low, high = free.bounds
    if low < 0 or high > row:
        raise fault(
            OutOfBounds, f"elements {low}..{high - 1} of a partition", tensor, f"0..{row - 1}"
        )
    if view.shape[0] > 1 and view.strides[0] % row:
        raise fault(
            ShapeFault,
            f"partition stride {view.strides[0]}",
            tensor,
            f"a multiple of {row} elements",
        )


def scalar(source: NkiTensor | VirtualRegister | int) -> int:
    """A dynamic offset's value; 0 where there are no numbers."""
    if isinstance(source, NkiTensor):
        if not current().settings.numbers:
            return 0
        return int(read(source).reshape(-1)[0])
    return int(source)


def window(tensor: NkiTensor, view: View) -> Array:
    """A NumPy view of the storage's bytes; writing to it writes the tensor."""
    elements = _flat(tensor)
    size = elements.itemsize
    return as_strided(elements[view.offset :], view.shape, tuple(n * size for n in view.strides))


def _flat(tensor: NkiTensor) -> Array:
    array = tensor.storage.array
    assert array is not None, "no numbers in a shape-only run"
    return array if array.dtype == tensor.dtype.numpy else array.view(tensor.dtype.numpy)


def _expand(flags: Bools, tensor: NkiTensor) -> Bools:
    """Flags as [elements of the tensor's type, flags an element]."""
    return flags.reshape(-1, tensor.dtype.itemsize // tensor.storage.unit)


def _flag_window(flags: Bools, tensor: NkiTensor, view: View) -> Bools:
    ratio = tensor.dtype.itemsize // tensor.storage.unit
    return as_strided(
        flags[view.offset * ratio :],
        (*view.shape, ratio),
        (*(n * ratio for n in view.strides), 1),
    )


def _mark(tensor: NkiTensor, view: View) -> None:
    flags = tensor.storage.flags(tensor.dtype.itemsize)
    if flags is None:
        return
    if view.size * tensor.dtype.itemsize >= tensor.storage.nbytes and 0 not in view.strides:
        tensor.storage.written = None
        return
    _flag_window(flags, tensor, view)[...] = True


def _check_written(tensor: NkiTensor, view: View) -> None:
    flags = tensor.storage.flags(tensor.dtype.itemsize)
    if flags is None or current().settings.unwritten is Unwritten.POISON or not view.size:
        return
    seen = _flag_window(flags, tensor, view)
    if not seen.all():
        missing = np.argwhere(~seen)
        first = tuple(int(n) for n in missing[0][:-1])
        raise fault(
            UninitialisedRead,
            f"reads {len(missing)} of {seen.size} elements that nothing wrote, first {first}",
            tensor,
            "every element written before it is read",
        )


def _addresses(tensor: NkiTensor, *, skip: bool) -> tuple[npt.NDArray[np.int64], Bools]:
    """(element addresses in the tensor's shape, which of them are inside)."""
    found = tensor.indirection
    assert found is not None
    assert isinstance(found.source, NkiTensor)
    # Column-major, as the hardware flattens a [P, N] tensor of indices.
    rows = read(found.source).astype(np.int64).reshape(found.source.shape[0], -1).T.reshape(-1)
    if rows.size < tensor.shape[0]:
        raise fault(ShapeFault, f"{rows.size} offsets", tensor, f"{tensor.shape[0]} partitions")
    where: Any = np.int64(tensor.offset)
    for dim, (count, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        line = rows[:count] * found.stride if dim == 0 else np.arange(count) * stride
        where = where + line.reshape([-1 if n == dim else 1 for n in range(tensor.ndim)])
    limit = tensor.storage.nbytes // tensor.dtype.itemsize
    inside = (where >= 0) & (where < limit)
    if not skip and not inside.all():
        worst = int(where[~inside].flat[0])
        raise fault(OutOfBounds, f"address of element {worst}", tensor, f"0..{limit - 1}")
    return where, inside


def reachable(tensor: NkiTensor) -> Bools:
    """Which elements of an indirect tensor lie inside of its storage."""
    if tensor.indirection is not None and tensor.indirection.vector:
        return _addresses(tensor, skip=True)[1]
    try:
        resolve(tensor)
    except OutOfBounds:
        return np.zeros(tensor.shape, np.bool_)
    return np.ones(tensor.shape, np.bool_)


def _gather(tensor: NkiTensor, *, skip: bool) -> Array:
    where, inside = _addresses(tensor, skip=skip)
    flags = tensor.storage.flags(tensor.dtype.itemsize)
    poison = current().settings.unwritten is Unwritten.POISON
    if flags is not None and not poison and not _expand(flags, tensor)[where[inside]].all():
        raise fault(
            UninitialisedRead, "gathers elements that nothing wrote", tensor, "written first"
        )
    return _flat(tensor)[np.where(inside, where, 0)]


def mark_where(tensor: NkiTensor, view: View, chosen: Bools) -> None:
    """Count some elements of a tensor as written."""
    flags = tensor.storage.flags(tensor.dtype.itemsize)
    if flags is not None:
        _flag_window(flags, tensor, view)[chosen] = True
