"""`nki.isa`: the instructions, destination first."""

from neuronfleet.kernels.interpreter.context import running
from neuronfleet.kernels.interpreter.faults import KernelFault as NkiValidationError
from neuronfleet.kernels.interpreter.isa.absent import (
    dropout,
    quantize_mx,
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    sequence_bounds,
    set_rng_seed,
    topk,
)
from neuronfleet.kernels.interpreter.isa.activations import (
    activate2,
    activation,
    activation_reduce,
    exponential,
)
from neuronfleet.kernels.interpreter.isa.constants import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from neuronfleet.kernels.interpreter.isa.cores import (
    core_barrier,
    register_alloc,
    register_load,
    register_move,
    register_store,
    sendrecv,
)
from neuronfleet.kernels.interpreter.isa.dma import dma_compute, dma_copy, dma_transpose
from neuronfleet.kernels.interpreter.isa.elementwise import (
    memset,
    nc_stream_shuffle,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)
from neuronfleet.kernels.interpreter.isa.reductions import (
    bn_aggr,
    bn_stats,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor_scan,
)
from neuronfleet.kernels.interpreter.isa.selection import (
    affine_select,
    iota,
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_n_gather,
    nonzero_with_count,
    range_select,
    select_reduce,
)
from neuronfleet.kernels.interpreter.isa.tensor_engine import (
    nc_matmul,
    nc_matmul_mx,
    nc_transpose,
)
from neuronfleet.kernels.interpreter.issue import NkiInstruction
from neuronfleet.kernels.interpreter.platform_choice import chosen_platform
from neuronfleet.kernels.interpreter.registers import VirtualRegister

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


def get_nc_version() -> nc_version:
    """The generation of the chosen platform."""
    core = running()
    return core.settings.platform.version if core is not None else chosen_platform().version


def get_nc_sub_version() -> int:
    """No platform here has one."""
    return 0


__all__ = [
    "NkiInstruction", "NkiValidationError", "VirtualRegister", "activate2", "activation",
    "activation_reduce", "affine_select", "bn_aggr", "bn_stats", "core_barrier", "dge_mode",
    "dma_compute", "dma_copy", "dma_engine", "dma_transpose", "dropout", "engine", "exponential",
    "get_nc_sub_version", "get_nc_version", "gpsimd_engine", "iota", "local_gather",
    "matmul_perf_mode", "max8", "memset", "nc_find_index8", "nc_match_replace8", "nc_matmul",
    "nc_matmul_mx", "nc_n_gather", "nc_stream_shuffle", "nc_transpose", "nc_version",
    "nonzero_with_count", "oob_mode", "quantize_mx", "rand2", "rand_get_state", "rand_set_state",
    "range_select", "reciprocal", "reduce_cmd", "register_alloc", "register_load",
    "register_move", "register_store", "rng", "scalar_engine", "scalar_tensor_tensor",
    "select_reduce", "sendrecv", "sequence_bounds", "set_rng_seed", "tensor_copy",
    "tensor_copy_predicated", "tensor_engine", "tensor_partition_reduce", "tensor_reduce",
    "tensor_scalar", "tensor_scalar_cumulative", "tensor_scalar_reduce", "tensor_tensor",
    "tensor_tensor_scan", "topk", "unknown_engine", "vector_engine",
]  # fmt: skip
