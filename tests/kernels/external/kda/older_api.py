"""The older, value-returning kernel API as KDA's candidates use it: shapes alone, no numbers.

A call returns a new tile; assigning it to a place makes that place its instruction's target, as the
compiler does. Places are boxes: the least and the greatest index in each dimension.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter.dtypes import DType, as_dtype
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction, Operand, Trace

SBUF, PSUM, HBM = MemoryRegion.sbuf, MemoryRegion.psum, MemoryRegion.shared_hbm


class ParDim(int):
    """A dimension's size that is marked as the partition's."""


class Tracer:
    """What a kernel has issued so far."""

    def __init__(self) -> None:
        self.trace = Trace(0, 0)
        self.storages = 0

    def serial(self) -> int:
        self.storages += 1
        return self.storages

    def tile(self, shape: Sequence[int], dtype: Any, region: MemoryRegion) -> "Tile":
        partition = next((n for n, size in enumerate(shape) if isinstance(size, ParDim)), 0)
        sizes = tuple(int(n) for n in shape)
        return Tile(self, self.serial(), sizes, kind(dtype), region, partition)

    def emit(
        self, engine: str, opcode: str, target: "Place", sources: dict[str, Any], **details: Any
    ) -> "Place":
        index = len(self.trace.instructions)
        reads = [s.operand(role) for role, s in sources.items() if isinstance(s, Place)]
        self.trace.instructions.append(
            Instruction(
                index=index, engine=engine, opcode=opcode, name="", place=None,
                writes=(target.operand("dst"),), reads=tuple(reads), details=tuple(details.items()),
            )
        )  # fmt: skip
        target.producer = index
        return target


class Place:
    """A part of a tensor."""

    def __init__(
        self, tracer: Tracer, serial: int, shape: tuple[int, ...], dtype: DType,
        region: MemoryRegion, partitions: tuple[int, int], extent: tuple[int, int],
    ) -> None:  # fmt: skip
        self.tracer = tracer
        self.serial = serial
        self.shape = shape
        self.dtype = dtype
        self.region = region
        self.partitions = partitions
        self.extent = extent
        self.producer: int | None = None
        self.added = False
        self.box: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        """Shape and strides in elements of a part of device memory."""

    def operand(self, role: str) -> Operand:
        shape = self.shape if len(self.shape) > 1 else (*self.shape, 1)
        strides: tuple[int, ...] = (0,) * len(shape)
        if self.box is not None and prod(self.box[0]) == prod(shape):
            shape, strides = self.box
        return Operand(
            role=role, tensor="", storage=self.serial, region=self.region, dtype=self.dtype,
            shape=shape, strides=strides, partitions=self.partitions,
            extent=self.extent, nbytes=prod(shape) * self.dtype.itemsize, indirect=False,
        )  # fmt: skip

    def broadcast_to(self, shape: Sequence[int]) -> "Place":
        sizes = tuple(int(n) for n in shape)
        return Place(
            self.tracer, self.serial, sizes, self.dtype, self.region, self.partitions, self.extent
        )

    def __iadd__(self, other: "Place") -> "Place":
        program = self.tracer.trace.instructions
        if other.producer is None or program[other.producer].opcode != "nc_matmul":
            both = {"data1": self, "data2": other}
            other = self.tracer.emit("vector", "tensor_tensor", self, both)
        other.added = True
        return other

    def __getitem__(self, key: Any) -> "Place":
        raise TypeError("a part of a part")


class Tile(Place):
    """A whole tensor; an input's shape may be unknown, `sizes` then being empty."""

    def __init__(
        self, tracer: Tracer, serial: int, sizes: tuple[int, ...], dtype: DType,
        region: MemoryRegion, partition: int = 0,
    ) -> None:  # fmt: skip
        self.partition = partition
        self.sizes = sizes
        free = prod(n for at, n in enumerate(sizes) if at != partition) * dtype.itemsize
        rows = sizes[partition] if sizes else 1
        bounds = ((0, rows), (0, free)) if region.on_chip else ((0, 1), (0, free * rows))
        order = (rows, *(n for at, n in enumerate(sizes) if at != partition))
        super().__init__(tracer, serial, order if partition else sizes, dtype, region, *bounds)

    def reshape(self, shape: Sequence[int]) -> "Tile":
        return Tile(self.tracer, self.serial, tuple(shape), self.dtype, self.region)

    def __getitem__(self, key: Any) -> Place:
        keys = [k for k in (key if isinstance(key, tuple) else (key,)) if k is not Ellipsis]
        keys += [slice(None)] * (len(self.sizes) - len(keys))
        lows, highs, arrays, kept = [], [], [], []
        for at, one in enumerate(keys):
            if isinstance(one, slice):
                low = one.start or 0
                high = one.stop if one.stop is not None else self.sizes[at]
                kept.append(int(high) - int(low))
                lows.append(int(low))
                highs.append(int(high) - 1)
            else:
                array = np.asarray(one)
                arrays.append(array.shape)
                lows.append(int(array.min()))
                highs.append(int(array.max()))
        shape = (*np.broadcast_shapes(*arrays), *kept) if arrays else tuple(kept)
        place = Place(
            self.tracer, self.serial, tuple(int(n) for n in shape) or (1, 1), self.dtype,
            self.region, *self._box(lows, highs),
        )  # fmt: skip
        if self.sizes and not self.region.on_chip:
            strides = tuple(prod(self.sizes[at + 1 :]) for at in range(len(self.sizes)))
            counts = tuple(high - low + 1 for low, high in zip(lows, highs, strict=True))
            place.box = (counts, strides)
        return place

    def _box(self, lows: list[int], highs: list[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        size = self.dtype.itemsize
        if not self.sizes:  # an input: nothing writes it, so its box decides nothing
            return (0, 1), (0, size)
        first = last = 0
        for at, extent in enumerate(self.sizes):
            if self.region.on_chip and at == self.partition:
                continue
            first = first * extent + lows[at]
            last = last * extent + highs[at]
        rows = (lows[self.partition], highs[self.partition] + 1) if self.region.on_chip else (0, 1)
        return rows, (first * size, (last + 1) * size)

    def __setitem__(self, key: Any, value: Any) -> None:
        place = self[key]
        if isinstance(value, Place) and value.added and value.serial == place.serial:
            return
        if not isinstance(value, Place):
            self.tracer.emit("vector", "memset", place, {})
            return
        if value.producer is None:
            self.tracer.emit("vector", "tensor_copy", place, {"src": value})
            return
        program = self.tracer.trace.instructions
        old = program[value.producer]
        program[value.producer] = Instruction(
            index=old.index, engine=old.engine, opcode=old.opcode, name="", place=None,
            writes=(place.operand("dst"), *old.writes[1:]), reads=old.reads, details=old.details,
        )  # fmt: skip


def kind(dtype: Any) -> DType:
    """A type by NumPy's or the language's name."""
    return as_dtype("float32" if dtype is None else dtype)
