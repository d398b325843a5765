"""Tensors of the language: a view of a storage, of a type, possibly at an address that is data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from neuronfleet.kernels.interpreter import views
from neuronfleet.kernels.interpreter.dtypes import DType, as_dtype
from neuronfleet.kernels.interpreter.faults import (
    BufferFault,
    LanguageFault,
    NotInterpreted,
    ShapeFault,
    kernel_place,
)
from neuronfleet.kernels.interpreter.memory import MemoryRegion, Storage
from neuronfleet.kernels.interpreter.objects import NKIObject
from neuronfleet.kernels.interpreter.rearrange import rearranged
from neuronfleet.kernels.interpreter.registers import VirtualRegister
from neuronfleet.kernels.interpreter.views import Key, View

Pattern = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Indirection:
    """An offset that is read when the instruction runs."""

    source: "NkiTensor | VirtualRegister"
    stride: int
    """Elements by which one unit of the offset moves the address."""
    vector: bool
    """One offset for each partition, which then replaces the pattern's partition stride."""


class NkiTensor(NKIObject):
    """A view; every method returns another view of the same storage."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    name: str
    dtype: DType
    buffer: MemoryRegion

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        storage: Storage,
        buffer: MemoryRegion = MemoryRegion.sbuf,
        name: str = "",
    ) -> None:
        self.dtype = as_dtype(dtype)
        self.storage = storage
        self.buffer = buffer
        self.name = name
        self.indirection: Indirection | None = None
        self._place(View(tuple(shape), views.dense(tuple(shape))))

    def _place(self, view: View) -> None:
        self.layout = view
        self.shape, self.strides, self.offset = view.shape, view.strides, view.offset

    def _seen(
        self, view: View, *, dtype: DType | None = None, indirection: Indirection | None = None
    ) -> "NkiTensor":
        """Another view of the storage; an indirection already there stays."""
        other = NkiTensor.__new__(NkiTensor)
        other.dtype = dtype or self.dtype
        other.storage = self.storage
        other.buffer = self.buffer
        other.name = self.name
        other.indirection = indirection or self.indirection
        other._place(view)
        return other

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements."""
        return self.layout.size

    @property
    def on_chip(self) -> bool:
        """Whether it lies in SBUF or PSUM."""
        return self.buffer.on_chip

    @property
    def free_size(self) -> int:
        """Elements in each partition."""
        return self.size // self.shape[0] if self.shape[0] else 0

    def __repr__(self) -> str:
        label = self.name or "tensor"
        return f"{label}({'x'.join(map(str, self.shape))} {self.dtype} {self.buffer.value})"

    def is_contiguous(self) -> bool:
        """Whether its elements lie behind each other; on chip, in each partition."""
        first = 1 if self.on_chip else 0
        wanted = views.dense(self.shape)[first:]
        return all(
            n == 1 or have == want
            for n, have, want in zip(self.shape[first:], self.strides[first:], wanted, strict=True)
        )

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...] in elements."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Whether its address is data."""
        return self.indirection is not None

    def __getitem__(self, key: Key | tuple[Key, ...]) -> "NkiTensor":
        keys = key if isinstance(key, tuple) else (key,)
        return self._seen(views.index(self.layout, keys, on_chip=self.on_chip))

    def __setitem__(self, key: object, value: object) -> None:
        raise LanguageFault(
            "assignment to a tensor is no instruction; nisa.tensor_copy writes",
            place=kernel_place(),
        )

    def permute(self, dims: tuple[int, ...]) -> "NkiTensor":
        """Dimensions in another order."""
        return self._seen(views.permute(self.layout, dims, on_chip=self.on_chip))

    def broadcast(self, dim: int, size: int) -> "NkiTensor":
        """A dimension of one element, repeated."""
        return self._seen(views.broadcast(self.layout, dim, size))

    def expand_dim(self, dim: int) -> "NkiTensor":
        """A new dimension of one element."""
        self._keep_partition(dim, "expand_dim")
        return self._seen(views.expand(self.layout, dim))

    def squeeze_dim(self, dim: int) -> "NkiTensor":
        """Without a dimension of one element."""
        self._keep_partition(dim, "squeeze_dim")
        return self._seen(views.squeeze(self.layout, dim))

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> "NkiTensor":
        """One dimension split into several."""
        if len(shape) > 1:
            self._keep_partition(dim, "reshape_dim")
        return self._seen(views.split(self.layout, dim, shape))

    def flatten_dims(self, start_dim: int, end_dim: int) -> "NkiTensor":
        """Dimensions start_dim..end_dim as one."""
        if end_dim > start_dim:
            self._keep_partition(start_dim, "flatten_dims")
        return self._seen(views.merge(self.layout, start_dim, end_dim))

    def reshape(self, shape: tuple[int, ...], *more: int) -> "NkiTensor":
        """The same elements under another shape, without a copy."""
        sizes = (shape, *more) if isinstance(shape, int) else tuple(shape)
        sizes = tuple(int(n) for n in sizes)
        if self.on_chip and sizes[0] != self.shape[0]:
            raise ShapeFault(
                f"cannot become {sizes}", shape=self.shape, place=kernel_place(),
                limit="on chip the partition dimension stays",
            )  # fmt: skip
        return self._seen(views.reshape(self.layout, sizes))

    def rearrange(
        self,
        src_pattern: tuple[Any, ...],
        dst_pattern: tuple[Any, ...],
        fixed_sizes: dict[str, int] | None = None,
    ) -> "NkiTensor":
        """Split, reorder and merge dimensions by name."""
        view = rearranged(
            self.layout, src_pattern, dst_pattern, fixed_sizes or {}, on_chip=self.on_chip
        )
        return self._seen(view)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> "NkiTensor":
        """Elements start..end of a dimension."""
        keys: list[Key] = [slice(None)] * self.ndim
        keys[dim] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: Union[int, "NkiTensor", VirtualRegister]) -> "NkiTensor":
        """One element of a dimension; where the index is a tensor, found when it is used."""
        self._keep_partition(dim, "select")
        if isinstance(index, NkiTensor | VirtualRegister):
            self._still_direct()
            return self._seen(
                views.drop(self.layout, dim),
                indirection=Indirection(index, self.strides[dim], vector=False),
            )
        start, _, _ = views._range(index, dim, self.shape[dim])
        return self._seen(views.drop(self.layout, dim, start))

    def vector_select(self, dim: int, vector_offset: "NkiTensor") -> "NkiTensor":
        """A row for each partition, by its own index."""
        self._still_direct()
        if dim != 0 or self.on_chip:
            raise BufferFault(
                "vector_select is for dimension 0 of HBM tensors", shape=self.shape,
                place=kernel_place(),
            )  # fmt: skip
        view = View((vector_offset.shape[0], *self.shape[1:]), self.strides, self.offset)
        return self._seen(
            view, indirection=Indirection(vector_offset, self.strides[0], vector=True)
        )

    def ap(
        self,
        pattern: Pattern,
        offset: int | None = None,
        scalar_offset: Union["NkiTensor", VirtualRegister, None] = None,
        vector_offset: Union["NkiTensor", None] = None,
        indirect_dim: int = 0,
        dtype: DType | None = None,
    ) -> "NkiTensor":
        """An access pattern of its own: [[stride, count], ...] in elements of `dtype`.

        `offset` counts from this view's first element. One unit of a dynamic offset moves by
        this view's stride of `indirect_dim`.
        """
        kind = as_dtype(dtype) if dtype is not None else self.dtype
        start = self.offset * self.dtype.itemsize // kind.itemsize + int(offset or 0)
        view = View(tuple(int(p[1]) for p in pattern), tuple(int(p[0]) for p in pattern), start)
        if scalar_offset is None and vector_offset is None:
            return self._seen(view, dtype=kind)
        self._still_direct()
        if scalar_offset is not None and vector_offset is not None:
            raise LanguageFault(
                "scalar_offset and vector_offset exclude each other", place=kernel_place()
            )
        stride = self.strides[indirect_dim] * self.dtype.itemsize // kind.itemsize
        source = vector_offset if vector_offset is not None else scalar_offset
        assert source is not None
        found = Indirection(source, stride, vector=vector_offset is not None)
        return self._seen(view, dtype=kind, indirection=found)

    def view(self, dtype: DType) -> "NkiTensor":
        """The same bytes as another type; the last dimension's size follows."""
        kind = as_dtype(dtype)
        view = views.reinterpret(self.layout, self.dtype.itemsize, kind.itemsize)
        return self._seen(view, dtype=kind)

    reinterpret_cast = view

    def indirect(self, index: "NkiTensor", num_elem: int | None = None) -> "NkiTensor":
        """Gather or scatter inside of an instruction, which only trn3 has: not interpreted."""
        raise NotInterpreted("indirect()", place=kernel_place())

    def _keep_partition(self, dim: int, method: str) -> None:
        if self.on_chip and dim == 0:
            raise ShapeFault(
                f"{method} on dimension 0", shape=self.shape, place=kernel_place(),
                limit="on chip the partition dimension stays",
            )  # fmt: skip

    def _still_direct(self) -> None:
        if self.indirection is not None:
            raise LanguageFault("a second dynamic offset on one tensor", place=kernel_place())
