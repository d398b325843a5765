"""The three decoder blocks in NumPy: each normalises, runs its op, and adds the residual.

Each has a form for one token a sequence (`step`) and one for a run of one sequence (`prefill`).
"""

from dataclasses import dataclass

from neuronfleet.kernels.deltanet.prefill import deltanet_prefill
from neuronfleet.kernels.deltanet.reference import deltanet_step
from neuronfleet.kernels.gqa.prefill import gqa_prefill
from neuronfleet.kernels.gqa.reference import gqa_step
from neuronfleet.kernels.moe.reference import moe
from neuronfleet.kernels.numerics import Floats, Ints
from neuronfleet.kernels.rmsnorm.reference import rmsnorm
from neuronfleet.kernels.weights import AttentionWeights, DeltaNetWeights, ExpertWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNetState:
    """What one DeltaNet layer carries from token to token, by slot; changed in place."""

    state: Floats
    """[slots, value_heads, key_dim, value_dim]."""
    conv_state: Floats
    """[slots, channels, conv_width - 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedKeysValues:
    """Keys and values of one attention layer, by block; changed in place."""

    k_cache: Floats
    """[blocks, block_size, kv_heads, head_dim]."""
    v_cache: Floats
    """Likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Angles:
    """Rotary cosines and sines, a row a token; one pair serves every attention layer."""

    cos: Floats
    sin: Floats


def deltanet_block_step(
    x: Floats, norm: Floats, w: DeltaNetWeights, held: DeltaNetState, slots: Ints, eps: float
) -> Floats:
    """X + DeltaNet(norm(x)) for one token a sequence; x is [batch, hidden]."""
    return x + deltanet_step(
        rmsnorm(x, norm, eps, zero_centred=True),
        w.w_qkv,
        w.w_z,
        w.w_b,
        w.w_a,
        w.conv_weight,
        w.a_log,
        w.dt_bias,
        w.norm_weight,
        w.w_out,
        held.state,
        held.conv_state,
        slots,
        eps,
    )


def deltanet_block_prefill(
    x: Floats, norm: Floats, w: DeltaNetWeights, held: DeltaNetState, slot: int, eps: float
) -> Floats:
    """X + DeltaNet(norm(x)) for tokens of one sequence; x is [tokens, hidden]."""
    return x + deltanet_prefill(
        rmsnorm(x, norm, eps, zero_centred=True),
        w.w_qkv,
        w.w_z,
        w.w_b,
        w.w_a,
        w.conv_weight,
        w.a_log,
        w.dt_bias,
        w.norm_weight,
        w.w_out,
        held.state,
        held.conv_state,
        slot,
        eps,
    )


def attention_block_step(
    x: Floats,
    norm: Floats,
    w: AttentionWeights,
    angles: Angles,
    held: PagedKeysValues,
    block_table: Ints,
    lengths: Ints,
    eps: float,
) -> Floats:
    """X + attention(norm(x)) for one token a sequence; x is [batch, hidden]."""
    return x + gqa_step(
        rmsnorm(x, norm, eps, zero_centred=True),
        *(w.w_q, w.w_k, w.w_v, w.q_norm, w.k_norm, w.w_o),
        *(angles.cos, angles.sin, held.k_cache, held.v_cache),
        block_table,
        lengths,
        eps,
    )


def attention_block_prefill(
    x: Floats,
    norm: Floats,
    w: AttentionWeights,
    angles: Angles,
    held: PagedKeysValues,
    blocks: Ints,
    start: int,
    eps: float,
) -> Floats:
    """X + attention(norm(x)) for tokens of one sequence; x is [tokens, hidden]."""
    return x + gqa_prefill(
        rmsnorm(x, norm, eps, zero_centred=True),
        *(w.w_q, w.w_k, w.w_v, w.q_norm, w.k_norm, w.w_o),
        *(angles.cos, angles.sin, held.k_cache, held.v_cache),
        blocks,
        start,
        eps,
    )


def expert_block(x: Floats, norm: Floats, w: ExpertWeights, top_k: int, eps: float) -> Floats:
    """X + experts(norm(x)); tokens do not see one another, so one form serves both phases."""
    return x + moe(
        rmsnorm(x, norm, eps, zero_centred=True),
        w.w_router,
        w.w_gate_up,
        w.w_down,
        w.w_shared_gate_up,
        w.w_shared_down,
        w.w_shared_gate,
        top_k,
    )
