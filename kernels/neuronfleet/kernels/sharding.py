"""Tensor-parallel slices of every weight and state, and their inverse.

Projections into a layer are cut by output rows, heads kept whole, and projections out of it by
input columns: then the ranks' outputs add up to the layer's, one all-reduce a layer. Where there
are fewer KV heads than ranks, neighbouring ranks hold the same KV head. Router, norms and the
shared expert's gate are whole on every rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neuronfleet.kernels.moe.reference import ExpertBank
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.shapes import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How an array is divided among ranks."""

    axis: int
    """Counted from the end, so that a matrix by expert is cut as one expert's matrix is."""
    sections: tuple[int, ...]
    """Lengths of the runs along the axis that are each divided, such as queries, keys, values."""
    units: int
    """What is not torn, heads or channels, in each section. With fewer units than ranks,
    neighbouring ranks hold the same one."""


Cuts = Mapping[str, Cut | None]
"""Names of kernel arguments and how each is cut; None where every rank holds the whole."""


def deltanet_cuts(shape: ModelShape) -> Cuts:
    """Of a DeltaNet layer's weights and states."""
    keys, values = shape.key_heads * shape.key_dim, shape.value_channels
    channels = (keys, keys, values)
    by_value = Cut(axis=-2, sections=(values,), units=shape.value_heads)
    by_head = (shape.value_heads,)
    return {
        "w_qkv": Cut(axis=-2, sections=channels, units=shape.key_heads),
        "w_z": by_value,
        "w_b": Cut(axis=-2, sections=by_head, units=shape.value_heads),
        "w_a": Cut(axis=-2, sections=by_head, units=shape.value_heads),
        "conv_weight": Cut(axis=-2, sections=channels, units=shape.key_heads),
        "a_log": Cut(axis=-1, sections=by_head, units=shape.value_heads),
        "dt_bias": Cut(axis=-1, sections=by_head, units=shape.value_heads),
        "norm_weight": None,
        "w_out": Cut(axis=-1, sections=(values,), units=shape.value_heads),
        "state": Cut(axis=-3, sections=by_head, units=shape.value_heads),
        "conv_state": Cut(axis=-2, sections=channels, units=shape.key_heads),
    }


def gqa_cuts(shape: ModelShape) -> Cuts:
    """Of an attention layer's weights and caches."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    by_kv = Cut(axis=-2, sections=(keys,), units=shape.kv_heads)
    cache = Cut(axis=-2, sections=(shape.kv_heads,), units=shape.kv_heads)
    return {
        "w_q": Cut(axis=-2, sections=(2 * queries,), units=shape.heads),
        "w_k": by_kv,
        "w_v": by_kv,
        "q_norm": None,
        "k_norm": None,
        "w_o": Cut(axis=-1, sections=(queries,), units=shape.heads),
        "k_cache": cache,
        "v_cache": cache,
    }


def moe_cuts(shape: ModelShape) -> Cuts:
    """Of a mixture of experts: every expert is cut, so that ranks share the load evenly."""
    expert, shared = shape.expert_width, shape.shared_width
    return {
        "w_router": None,
        "w_gate_up": Cut(axis=-2, sections=(expert, expert), units=expert),
        "w_down": Cut(axis=-1, sections=(expert,), units=expert),
        "w_shared_gate_up": Cut(axis=-2, sections=(shared, shared), units=shared),
        "w_shared_down": Cut(axis=-1, sections=(shared,), units=shared),
        "w_shared_gate": None,
    }


def lm_head_cuts(shape: ModelShape) -> Cuts:
    """Of the head: by token, and the ranks' logits stand side by side instead of adding up."""
    tokens = shape.vocabulary
    return {"w_head": Cut(axis=-2, sections=(tokens,), units=tokens)}


def cut(array: Floats, how: Cut | None, rank: int, ranks: int) -> Floats:
    """What one rank holds of an array.

    Raises:
        ValueError: units and ranks do not divide one another.
    """
    if how is None:
        return array
    parts = _parts(how, ranks)
    part = rank * parts // ranks
    pieces = []
    for section in _sections(array, how):
        width = section.shape[how.axis] // parts
        pieces.append(_take(section, how.axis, part * width, width))
    return np.concatenate(pieces, axis=how.axis)


def join(held: Sequence[Floats], how: Cut | None) -> Floats:
    """The whole array from what the ranks hold, rank 0 first.

    Raises:
        ValueError: ranks that hold the same part differ, or units and ranks do not divide.
    """
    ranks = len(held)
    parts = 1 if how is None else _parts(how, ranks)
    copies = ranks // parts
    for rank, array in enumerate(held):
        if not np.array_equal(array, held[rank - rank % copies], equal_nan=True):
            raise ValueError(f"rank = {rank}, must hold what rank {rank - rank % copies} holds")
    if how is None:
        return held[0]
    own = Cut(axis=how.axis, sections=tuple(n // parts for n in how.sections), units=how.units)
    by_rank = [_sections(array, own) for array in held[::copies]]
    pieces = [piece for section in zip(*by_rank, strict=True) for piece in section]
    return np.concatenate(pieces, axis=how.axis)


@dataclass(frozen=True, slots=True)
class RankBank:
    """One rank's slices of experts that are made or read on demand."""

    whole: ExpertBank
    how: Cut | None
    rank: int
    ranks: int

    def __getitem__(self, expert: int, /) -> Floats:
        """The rank's slice of one expert's matrix."""
        return cut(self.whole[expert], self.how, self.rank, self.ranks)


def _parts(how: Cut, ranks: int) -> int:
    """Distinct parts: 2 KV heads over 4 ranks are 2 parts, each on 2 ranks."""
    parts = min(how.units, ranks)
    if how.units % parts or ranks % parts:
        raise ValueError(f"units = {how.units}, must divide by {ranks} ranks or divide them")
    return parts


def _sections(array: Floats, how: Cut) -> list[Floats]:
    """The runs along the axis; their lengths must be all of it."""
    if sum(how.sections) != array.shape[how.axis]:
        raise ValueError(f"axis {how.axis} = {array.shape[how.axis]}, must be {sum(how.sections)}")
    return np.split(array, np.cumsum(how.sections)[:-1].tolist(), axis=how.axis)


def _take(array: Floats, axis: int, start: int, width: int) -> Floats:
    index: list[slice] = [slice(None)] * array.ndim
    index[axis] = slice(start, start + width)
    return array[tuple(index)]
