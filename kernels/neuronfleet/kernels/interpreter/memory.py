"""Buffers: flat storage in HBM, SBUF or PSUM that remembers what has been written."""

from enum import Enum
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.interpreter.dtypes import Array, DType
from neuronfleet.kernels.interpreter.faults import Place


class MemoryRegion(Enum):
    """Where a tensor lives."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    @property
    def on_chip(self) -> bool:
        """Whether dimension 0 is the partition dimension."""
        return self in (MemoryRegion.sbuf, MemoryRegion.psum)


_POISON: Final = 0xFF
"""Byte of unwritten memory: NaN in every float type, -1 or the largest in integers."""


class Storage:
    """One allocation. Element (partition p, free f) of an on-chip tensor is at `p * row + f`.

    Attributes:
        shape: As allocated.
        array: Flat elements, or None where only shapes are traced.
        written: A flag for every `unit` bytes, or None once all are written.
        matmul_written: PSUM elements that a matrix product has started; None where none has.
        address: (start partition, byte in the partition) where the kernel chose it.
        first_write: Instruction that first wrote it, the start of its life; None before.
        last_use: Instruction that last read or wrote it.
    """

    __slots__ = (
        "address", "array", "dtype", "first_write", "last_use", "matmul_written", "name", "place",
        "region", "serial", "shape", "unit", "written",
    )  # fmt: skip

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        region: MemoryRegion,
        *,
        name: str = "",
        serial: int = 0,
        numbers: bool = True,
        place: Place | None = None,
        address: tuple[int, int] | None = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.region = region
        self.name = name
        self.serial = serial
        self.place = place
        self.address = address
        self.unit = dtype.itemsize
        self.array: Array | None = None
        if numbers:
            raw = np.full(self.size * dtype.itemsize, _POISON, np.uint8)
            self.array = raw.view(dtype.numpy)
        self.written: npt.NDArray[np.bool_] | None = np.zeros(self.size, np.bool_)
        self.matmul_written: npt.NDArray[np.bool_] | None = None
        self.first_write: int | None = None
        self.last_use: int | None = None

    @classmethod
    def of(cls, values: Array, dtype: DType, *, name: str, serial: int = 0) -> "Storage":
        """An input in HBM, wholly written; the caller's array is copied."""
        self = cls((0,), dtype, MemoryRegion.shared_hbm, name=name, serial=serial)
        self.shape = values.shape
        self.array = np.array(values, dtype.numpy, order="C").reshape(-1)
        self.written = None
        return self

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.size * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes in each partition, for on-chip tensors."""
        return prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def base_partition(self) -> int:
        """Partition of element 0."""
        return self.address[0] if self.address else 0

    def flags(self, itemsize: int) -> npt.NDArray[np.bool_] | None:
        """The written flags, refined so that one flag covers no more than `itemsize` bytes."""
        if self.written is not None and itemsize < self.unit:
            self.written = np.repeat(self.written, self.unit // itemsize)
            self.unit = itemsize
        return self.written

    def touch(self, index: int, *, write: bool) -> None:
        """Lengthen its life to an instruction."""
        if write and self.first_write is None:
            self.first_write = index
        self.last_use = index
