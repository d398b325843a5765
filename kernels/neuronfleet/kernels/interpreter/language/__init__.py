"""`nki.language`: tensors, types, loops and operators."""

from neuronfleet.kernels.interpreter import dtypes as _dtypes
from neuronfleet.kernels.interpreter import operators as _operators
from neuronfleet.kernels.interpreter.dtypes import DType
from neuronfleet.kernels.interpreter.language.allocation import (
    empty_like,
    full,
    ndarray,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from neuronfleet.kernels.interpreter.language.loops import (
    affine_range,
    ds,
    dynamic_range,
    fori_loop,
    sequential_range,
    static_range,
    while_loop,
)
from neuronfleet.kernels.interpreter.language.program import (
    device_print,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    tile_size,
)
from neuronfleet.kernels.interpreter.language.wrappers import (
    all,
    broadcast_to,
    dropout,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    max,
    mean,
    min,
    prod,
    rand,
    random_seed,
    rms_norm,
    softmax,
    store,
    sum,
    transpose,
    var,
    where,
)
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.objects import NKIObject
from neuronfleet.kernels.interpreter.tensors import NkiTensor
from neuronfleet.kernels.interpreter.views import DynamicSlice

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = MemoryRegion.private_hbm
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
average = _operators.Operator("average", _operators.BINARY["add"].function, start=0.0)

globals().update(_dtypes.ALL)
globals().update(_operators.ALL)

__all__ = [
    "DType", "DynamicSlice", "MemoryRegion", "NKIObject", "NkiTensor", "affine_range", "all",
    "average", "broadcast_to", "device_print", "dropout", "ds", "dynamic_range", "empty_like",
    "expand_dims", "fori_loop", "full", "gather_flattened", "hbm", "is_hbm", "is_on_chip",
    "is_psum", "is_sbuf", "load", "load_transpose2d", "matmul", "max", "mean", "min", "ndarray",
    "no_reorder", "num_programs", "ones", "private_hbm", "prod", "program_id", "program_ndim",
    "psum", "rand", "random_seed", "rms_norm", "sbuf", "sequential_range", "shared_constant",
    "shared_hbm", "shared_identity_matrix", "softmax", "static_range", "store", "sum",
    "tile_size", "transpose", "var", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip
