"""Tensors made by a kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter import access
from neuronfleet.kernels.interpreter.context import Core, current
from neuronfleet.kernels.interpreter.dtypes import DType, as_dtype, uint8
from neuronfleet.kernels.interpreter.faults import (
    BufferFault,
    CapacityFault,
    PartitionFault,
    ShapeFault,
    kernel_place,
)
from neuronfleet.kernels.interpreter.issue import issue
from neuronfleet.kernels.interpreter.memory import MemoryRegion, Storage
from neuronfleet.kernels.interpreter.tensors import NkiTensor

sbuf = MemoryRegion.sbuf


def ndarray(
    shape: Sequence[int],
    dtype: object,
    buffer: MemoryRegion = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A tensor that nothing has written; on chip, dimension 0 is the partition dimension.

    Raises:
        PartitionFault: For more than 128 partitions.
        CapacityFault: For more bytes a partition than there are.
        BufferFault: For a buffer that is no memory region.
    """
    core = current()
    sizes = tuple(int(n) for n in shape)
    kind = as_dtype(dtype)
    if not isinstance(buffer, MemoryRegion):
        raise BufferFault(
            f"buffer {buffer!r}", place=kernel_place(), limit="nl.sbuf, nl.psum, ..._hbm"
        )
    if not sizes or any(n < 0 for n in sizes):
        raise ShapeFault("is no shape", shape=sizes, place=kernel_place())
    if buffer.on_chip:
        _check_fits(core, sizes, kind, buffer, name)
    if buffer is MemoryRegion.shared_hbm and core.cores > 1:
        storage = _shared(core, sizes, kind, name)
    else:
        storage = _storage(core, sizes, kind, buffer, name, address)
    core.storages.append(storage)
    return NkiTensor(sizes, kind, storage, buffer, name)


def _check_fits(
    core: Core, shape: tuple[int, ...], dtype: DType, buffer: MemoryRegion, name: str
) -> None:
    platform = core.settings.platform
    if shape[0] > platform.partitions:
        raise PartitionFault(
            f"{shape[0]} partitions", operand=name or None, shape=shape, place=kernel_place(),
            limit=f"{platform.partitions} partitions",
        )  # fmt: skip
    need = int(np.prod(shape[1:])) * dtype.itemsize
    have = (
        platform.psum_partition_bytes if buffer is MemoryRegion.psum else platform.sbuf_usable_bytes
    )
    if need > have:
        raise CapacityFault(
            f"{need} bytes a partition of {buffer.value.upper()}", operand=name or None,
            shape=shape, place=kernel_place(), limit=f"{have} bytes on {platform.name}",
        )  # fmt: skip


def _storage(
    core: Core,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: MemoryRegion,
    name: str,
    address: tuple[int, int] | None,
) -> Storage:
    return Storage(
        shape,
        dtype,
        buffer,
        name=name,
        # Serials are of one core; shared tensors have negative ones (see _shared).
        serial=len(core.storages),
        numbers=core.settings.numbers,
        place=kernel_place(),
        address=(int(address[0]), int(address[1])) if address is not None else None,
    )


def _shared(core: Core, shape: tuple[int, ...], dtype: DType, name: str) -> Storage:
    """The n-th shared tensor is one for all cores of a rank, as all run one program."""
    core.shared_count += 1
    key = (core.rank, core.shared_count)
    with core.shared_lock:
        found = core.shared.get(key)
        if found is None:
            found = _storage(core, shape, dtype, MemoryRegion.shared_hbm, name, None)
            found.serial = -1000 - core.shared_count
            core.shared[key] = found
    if found.shape != shape or found.dtype != dtype:
        raise ShapeFault(
            "is not what the other core allocates here", operand=name or None, shape=shape,
            place=kernel_place(), limit=f"{found.shape} {found.dtype} on every core",
        )  # fmt: skip
    return found


def full(
    shape: Sequence[int],
    fill_value: float,
    dtype: object,
    buffer: MemoryRegion = sbuf,
    name: str = "",
) -> NkiTensor:
    """A tensor of one number."""
    tensor = ndarray(shape, dtype, buffer, name)
    step = issue("memset", "vector" if buffer.on_chip else "dma", {"dst": tensor}, {})
    step.run(lambda: access.write(tensor, np.full(tensor.shape, fill_value, np.float32)))
    return tensor


def zeros(
    shape: Sequence[int], dtype: object, buffer: MemoryRegion = sbuf, name: str = ""
) -> NkiTensor:
    """A tensor of zeros."""
    return full(shape, 0.0, dtype, buffer, name)


def ones(
    shape: Sequence[int], dtype: object, buffer: MemoryRegion = sbuf, name: str = ""
) -> NkiTensor:
    """A tensor of ones."""
    return full(shape, 1.0, dtype, buffer, name)


def zeros_like(
    x: NkiTensor, dtype: object = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """Zeros in x's shape."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(
    x: NkiTensor, dtype: object = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """A tensor of x's shape that nothing has written."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def _filled(tensor: NkiTensor, values: Any, opcode: str) -> NkiTensor:
    issue(opcode, "dma", {"dst": tensor}, {}).run(lambda: access.write(tensor, values))
    return tensor


def shared_constant(constant: Any) -> NkiTensor:
    """A constant of the program, in HBM."""
    values = np.asarray(constant)
    tensor = ndarray(values.shape, as_dtype(values.dtype), MemoryRegion.private_hbm, "constant")
    return _filled(tensor, values, "constant")


def shared_identity_matrix(
    n: int, dtype: object = uint8, dst: NkiTensor | None = None
) -> NkiTensor:
    """The identity, [n, n], in SBUF."""
    tensor = dst if dst is not None else ndarray((n, n), dtype, sbuf, "identity")
    return _filled(tensor, np.eye(n, dtype=np.float32), "identity")
