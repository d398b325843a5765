"""Weights by layer, in the checkpoint's own layout; fields stand in the order of the kernels."""

from dataclasses import dataclass

from neuronfleet.kernels.moe.reference import ExpertBank
from neuronfleet.kernels.numerics import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNetWeights:
    """Of one DeltaNet layer; shapes as `deltanet_step` takes them."""

    w_qkv: Floats
    w_z: Floats
    w_b: Floats
    w_a: Floats
    conv_weight: Floats
    a_log: Floats
    dt_bias: Floats
    norm_weight: Floats
    w_out: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWeights:
    """Of one attention layer; shapes as `gqa_step` takes them."""

    w_q: Floats
    w_k: Floats
    w_v: Floats
    q_norm: Floats
    k_norm: Floats
    w_o: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertWeights:
    """Of one mixture of experts; shapes as `moe` takes them."""

    w_router: Floats
    w_gate_up: ExpertBank
    w_down: ExpertBank
    w_shared_gate_up: Floats
    w_shared_down: Floats
    w_shared_gate: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """Of one decoder layer."""

    mixer_norm: Floats
    """[hidden], zero-centred, before the mixer."""
    mixer: DeltaNetWeights | AttentionWeights
    expert_norm: Floats
    """[hidden], zero-centred, before the experts."""
    experts: ExpertWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """Of a whole decoder."""

    embedding: Floats
    """[vocabulary, hidden]."""
    layers: tuple[LayerWeights, ...]
    norm: Floats
    """[hidden], zero-centred, before the head."""
    head: Floats
    """[vocabulary, hidden]."""
