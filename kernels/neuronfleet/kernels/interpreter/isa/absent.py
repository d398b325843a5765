"""Instructions that have a signature and a place in the trace but are not computed."""

from typing import Any

from neuronfleet.kernels.interpreter.faults import NotInterpreted
from neuronfleet.kernels.interpreter.isa.constants import engine
from neuronfleet.kernels.interpreter.issue import fault, issue
from neuronfleet.kernels.interpreter.tensors import NkiTensor


def _absent(opcode: str, **tensors: Any) -> Any:
    issue(opcode, "gpsimd", {}, tensors)
    raise fault(NotInterpreted, "this interpreter does not compute it")


def quantize_mx(
    dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None
) -> Any:
    """Micro-scaled quantisation (trn3)."""
    return _absent("quantize_mx", dst=dst, src=src)


def rng(dst: NkiTensor, engine: engine = engine.vector, name: str | None = None) -> Any:
    """Random bits."""
    return _absent("rng", dst=dst)


def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> Any:
    """Random zeros."""
    return _absent("dropout", dst=dst, data=data)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> Any:
    """The generator's seed."""
    return _absent("set_rng_seed", src_seeds=src_seeds)


def rand_set_state(
    src_seeds: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None
) -> Any:
    """The generator's state, written."""
    return _absent("rand_set_state", src_seeds=src_seeds)


def rand_get_state(dst: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None) -> Any:
    """The generator's state, read."""
    return _absent("rand_get_state", dst=dst)


def rand2(dst: NkiTensor, min: Any, max: Any, name: str | None = None) -> Any:
    """Uniform numbers (trn3)."""
    return _absent("rand2", dst=dst)


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> Any:
    """Bounds of segments."""
    return _absent("sequence_bounds", dst=dst, segment_ids=segment_ids)


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None
) -> Any:
    """The largest of a tile that snakes over 16 partitions; max8 is what our kernels use."""
    return _absent("topk", val_dst=val_dst, idx_dst=idx_dst, src=src)
