"""Seeded weights, states and tokens of the decode ops, at sizes that a test may choose."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.models.blocks import DeltaNetState, PagedKeysValues
from neuronfleet.kernels.numerics import Floats, Ints
from neuronfleet.kernels.rope.reference import rope_tables
from neuronfleet.kernels.shapes import ModelShape
from neuronfleet.kernels.weights import (
    AttentionWeights,
    DecoderWeights,
    DeltaNetWeights,
    ExpertWeights,
    LayerWeights,
)

TINY = ModelShape(
    hidden=32,
    layers=4,
    full_attention_interval=4,
    vocabulary=96,
    heads=8,
    kv_heads=2,
    head_dim=16,
    rotary_dim=4,
    rope_theta=1e4,
    key_heads=4,
    value_heads=8,
    key_dim=8,
    value_dim=8,
    conv_width=4,
    experts=16,
    experts_per_token=4,
    expert_width=16,
    shared_width=16,
)
"""Every ratio of the real model that matters (query to KV heads, value to key heads), small."""


@dataclass(frozen=True, slots=True)
class LazyBank:
    """Experts made when asked for, each from its own seed: 256 full ones never exist at once."""

    seed: int
    rows: int
    columns: int

    def __getitem__(self, expert: int, /) -> Floats:
        rng = np.random.default_rng((self.seed, expert))
        uniform = rng.random((self.rows, self.columns), dtype=np.float32) - np.float32(0.5)
        return uniform * np.float32((12 / self.columns) ** 0.5)


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    """Standard normal numbers over the root of the last axis, as a trained matrix is scaled."""
    return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[-1]))


def deltanet_weights(rng: np.random.Generator, s: ModelShape) -> DeltaNetWeights:
    return DeltaNetWeights(
        w_qkv=normal(rng, s.conv_channels, s.hidden),
        w_z=normal(rng, s.value_channels, s.hidden),
        w_b=normal(rng, s.value_heads, s.hidden),
        w_a=normal(rng, s.value_heads, s.hidden),
        conv_weight=normal(rng, s.conv_channels, s.conv_width),
        a_log=np.log(rng.uniform(0.01, 16, s.value_heads)),
        dt_bias=rng.uniform(-1, 1, s.value_heads),
        norm_weight=rng.uniform(0.5, 1.5, s.value_dim),
        w_out=normal(rng, s.hidden, s.value_channels),
    )


def attention_weights(rng: np.random.Generator, s: ModelShape) -> AttentionWeights:
    return AttentionWeights(
        w_q=normal(rng, 2 * s.heads * s.head_dim, s.hidden),
        w_k=normal(rng, s.kv_heads * s.head_dim, s.hidden),
        w_v=normal(rng, s.kv_heads * s.head_dim, s.hidden),
        q_norm=rng.uniform(-0.5, 0.5, s.head_dim),
        k_norm=rng.uniform(-0.5, 0.5, s.head_dim),
        w_o=normal(rng, s.hidden, s.heads * s.head_dim),
    )


def expert_weights(rng: np.random.Generator, s: ModelShape) -> ExpertWeights:
    return ExpertWeights(
        w_router=normal(rng, s.experts, s.hidden),
        w_gate_up=normal(rng, s.experts, 2 * s.expert_width, s.hidden),
        w_down=normal(rng, s.experts, s.hidden, s.expert_width),
        w_shared_gate_up=normal(rng, 2 * s.shared_width, s.hidden),
        w_shared_down=normal(rng, s.hidden, s.shared_width),
        w_shared_gate=normal(rng, 1, s.hidden),
    )


def decoder_weights(rng: np.random.Generator, s: ModelShape) -> DecoderWeights:
    def layer(index: int) -> LayerWeights:
        attention = s.is_attention(index)
        return LayerWeights(
            mixer_norm=rng.uniform(-0.2, 0.2, s.hidden),
            mixer=attention_weights(rng, s) if attention else deltanet_weights(rng, s),
            expert_norm=rng.uniform(-0.2, 0.2, s.hidden),
            experts=expert_weights(rng, s),
        )

    return DecoderWeights(
        embedding=rng.standard_normal((s.vocabulary, s.hidden)),
        layers=tuple(layer(index) for index in range(s.layers)),
        norm=rng.uniform(-0.2, 0.2, s.hidden),
        head=normal(rng, s.vocabulary, s.hidden),
    )


def deltanet_state(rng: np.random.Generator, s: ModelShape, slots: int) -> DeltaNetState:
    return DeltaNetState(
        state=rng.standard_normal((slots, s.value_heads, s.key_dim, s.value_dim)),
        conv_state=rng.standard_normal((slots, s.conv_channels, s.conv_width - 1)),
    )


def pages(rng: np.random.Generator, s: ModelShape, blocks: int, size: int) -> PagedKeysValues:
    shape = (blocks, size, s.kv_heads, s.head_dim)
    return PagedKeysValues(k_cache=rng.standard_normal(shape), v_cache=rng.standard_normal(shape))


def angles(s: ModelShape, lengths: Ints) -> tuple[Floats, Floats]:
    return rope_tables(lengths - 1, s.rotary_dim, s.rope_theta, np.float64)


def named(*parts: Any) -> dict[str, Any]:
    """Fields of weights and states by name, which is the kernel's argument."""
    return {field.name: getattr(part, field.name) for part in parts for field in fields(part)}


def as_dtype(arrays: Any, dtype: npt.DTypeLike) -> Any:
    """The same weights, arrays or state in another dtype."""
    if isinstance(arrays, np.ndarray):
        return arrays.astype(dtype)
    return type(arrays)(
        **{f.name: as_dtype(getattr(arrays, f.name), dtype) for f in fields(arrays)}
    )


def close(left: Floats, right: Floats, tolerance: float = 1e-12) -> bool:
    """Whether the largest difference is within a part of the largest number; NaN never is."""
    assert left.shape == right.shape
    return bool(np.abs(left - right).max() <= tolerance * np.abs(right).max())
