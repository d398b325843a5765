"""From a Hugging Face checkpoint of Qwen3.5 MoE (config and named arrays) to shape and weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.shapes import ModelShape
from neuronfleet.kernels.weights import (
    AttentionWeights,
    DecoderWeights,
    DeltaNetWeights,
    ExpertWeights,
    LayerWeights,
)


def shape_of(config: Mapping[str, Any]) -> ModelShape:
    """Sizes from a text config.

    Raises:
        KeyError: a size is missing.
        ValueError: its layers are not in the order that `full_attention_interval` says.
    """
    rotary = config["rope_parameters"]
    head_dim = config["head_dim"]
    shape = ModelShape(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        full_attention_interval=config.get("full_attention_interval") or 4,
        vocabulary=config["vocab_size"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=head_dim,
        rotary_dim=int(head_dim * rotary["partial_rotary_factor"]),
        rope_theta=float(rotary["rope_theta"]),
        key_heads=config["linear_num_key_heads"],
        value_heads=config["linear_num_value_heads"],
        key_dim=config["linear_key_head_dim"],
        value_dim=config["linear_value_head_dim"],
        conv_width=config["linear_conv_kernel_dim"],
        experts=config["num_experts"],
        experts_per_token=config["num_experts_per_tok"],
        expert_width=config["moe_intermediate_size"],
        shared_width=config["shared_expert_intermediate_size"],
        eps=config["rms_norm_eps"],
    )
    for layer, kind in enumerate(config.get("layer_types") or ()):
        if (kind == "full_attention") != shape.is_attention(layer):
            raise ValueError(f"layer_types[{layer}] = {kind}, must follow the interval")
    return shape


def decoder_weights(
    shape: ModelShape, arrays: Mapping[str, Floats], prefix: str = "model."
) -> DecoderWeights:
    """Weights from arrays named as the checkpoint names them.

    Args:
        shape: Of the decoder.
        arrays: By name; a fused `experts.gate_up_proj` holds gate rows, then up rows.
        prefix: What stands before `layers.0`.

    Raises:
        KeyError: an array is missing.
    """
    layers = (_layer(shape, arrays, prefix, layer) for layer in range(shape.layers))
    return DecoderWeights(
        embedding=arrays[f"{prefix}embed_tokens.weight"],
        layers=tuple(layers),
        norm=arrays[f"{prefix}norm.weight"],
        head=arrays["lm_head.weight"],
    )


def _layer(
    shape: ModelShape, arrays: Mapping[str, Floats], prefix: str, layer: int
) -> LayerWeights:
    at = f"{prefix}layers.{layer}."
    mixer: AttentionWeights | DeltaNetWeights
    if shape.is_attention(layer):
        mixer = _attention(arrays, f"{at}self_attn.")
    else:
        mixer = _deltanet(arrays, f"{at}linear_attn.")
    return LayerWeights(
        mixer_norm=arrays[f"{at}input_layernorm.weight"],
        mixer=mixer,
        expert_norm=arrays[f"{at}post_attention_layernorm.weight"],
        experts=_experts(arrays, f"{at}mlp."),
    )


def _deltanet(arrays: Mapping[str, Floats], at: str) -> DeltaNetWeights:
    return DeltaNetWeights(
        w_qkv=arrays[f"{at}in_proj_qkv.weight"],
        w_z=arrays[f"{at}in_proj_z.weight"],
        w_b=arrays[f"{at}in_proj_b.weight"],
        w_a=arrays[f"{at}in_proj_a.weight"],
        # Stored as [channels, 1, taps], a depthwise convolution's form.
        conv_weight=arrays[f"{at}conv1d.weight"][:, 0],
        a_log=arrays[f"{at}A_log"],
        dt_bias=arrays[f"{at}dt_bias"],
        norm_weight=arrays[f"{at}norm.weight"],
        w_out=arrays[f"{at}out_proj.weight"],
    )


def _attention(arrays: Mapping[str, Floats], at: str) -> AttentionWeights:
    return AttentionWeights(
        w_q=arrays[f"{at}q_proj.weight"],
        w_k=arrays[f"{at}k_proj.weight"],
        w_v=arrays[f"{at}v_proj.weight"],
        q_norm=arrays[f"{at}q_norm.weight"],
        k_norm=arrays[f"{at}k_norm.weight"],
        w_o=arrays[f"{at}o_proj.weight"],
    )


def _experts(arrays: Mapping[str, Floats], at: str) -> ExpertWeights:
    shared = f"{at}shared_expert."
    gate_up = (arrays[f"{shared}gate_proj.weight"], arrays[f"{shared}up_proj.weight"])
    return ExpertWeights(
        w_router=arrays[f"{at}gate.weight"],
        w_gate_up=arrays[f"{at}experts.gate_up_proj"],
        w_down=arrays[f"{at}experts.down_proj"],
        w_shared_gate_up=np.concatenate(gate_up),
        w_shared_down=arrays[f"{shared}down_proj.weight"],
        w_shared_gate=arrays[f"{at}shared_expert_gate.weight"],
    )
