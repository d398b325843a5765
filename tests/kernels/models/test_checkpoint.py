from typing import Any

import pytest

from neuronfleet.kernels.models.checkpoint import shape_of
from neuronfleet.kernels.shapes import QWEN3_5_35B_A3B

CONFIG: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "full_attention_interval": 4,
    "vocab_size": 248320,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "rope_parameters": {"rope_theta": 10000000, "partial_rotary_factor": 0.25},
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "rms_norm_eps": 1e-6,
}


def test_the_model_s_config_gives_its_shape() -> None:
    assert shape_of(CONFIG) == QWEN3_5_35B_A3B


def test_layers_out_of_their_interval_are_refused() -> None:
    kinds = ["linear_attention", "linear_attention", "full_attention"]

    with pytest.raises(ValueError, match=r"layer_types\[2\] = full_attention"):
        shape_of(CONFIG | {"layer_types": kinds})
