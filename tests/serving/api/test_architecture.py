"""Sizes from config.json, against arithmetic done by hand."""

import json
from pathlib import Path

import pytest

from neuronfleet.serving.api import architecture
from neuronfleet.serving.api.architecture import Architecture, built_in
from neuronfleet.serving.api.problems import SpecError

KIB = 1024


def dense(hidden: int, layers: int, heads: int, kv: int, dim: int, mlp: int, vocab: int) -> int:
    """Parameters of a Llama: attention, SwiGLU and two norms a layer, two embeddings, a norm."""
    attention = hidden * heads * dim + 2 * hidden * kv * dim + heads * dim * hidden
    return layers * (attention + 3 * hidden * mlp + 2 * hidden) + 2 * vocab * hidden + hidden


@pytest.mark.parametrize(
    ("name", "parameters", "kv_kib"),
    [
        ("llama-3.1-8b", dense(4096, 32, 32, 8, 128, 14336, 128256), 128),
        ("mistral-7b", dense(4096, 32, 32, 8, 128, 14336, 32768), 128),
        ("qwen3-8b", dense(4096, 36, 32, 8, 128, 12288, 151936) + 36 * 2 * 128, 144),
        ("tinyllama-1.1b", dense(2048, 22, 32, 4, 64, 5632, 32000), 22),
    ],
)
def test_dense_models_count_as_by_hand(name: str, parameters: int, kv_kib: int) -> None:
    one = built_in(name)

    assert one.parameters == parameters
    assert one.active_parameters == parameters - one.vocabulary * one.hidden
    assert one.kv_bytes_per_token() == kv_kib * KIB
    assert one.weight_bytes() == 2 * parameters
    assert one.state_bytes == 0


def test_the_8b_has_8_03_billion_parameters_and_15_317_mib_of_weights() -> None:
    one = built_in("llama-3.1-8b")

    assert one.parameters == 8_030_261_248
    assert round(one.weight_bytes() / 2**20) == 15_317


def test_the_hybrid_35b_counts_as_by_hand() -> None:
    one = built_in("qwen3.5-35b-a3b")
    delta = 2048 * (8192 + 4096 + 2 * 32) + 4096 * 2048 + 8192 * 4 + 2 * 32 + 128
    attention = 2048 * 256 * (2 * 16 + 2 * 2) + 16 * 256 * 2048 + 2 * 256
    expert = 3 * 2048 * 512
    always = expert + 2048 + 2048 * 256 + 2 * 2048
    embedding = 248320 * 2048
    dense_part = 30 * delta + 10 * attention + 40 * always + 2048 + embedding

    assert one.parameters == dense_part + 40 * 256 * expert + embedding
    assert one.active_parameters == dense_part + 40 * 8 * expert
    assert one.parameters / 1e9 == pytest.approx(34.66, abs=0.005)
    assert one.active_parameters / 1e9 == pytest.approx(2.95, abs=0.005)
    assert one.attention_layers == 10
    assert one.kv_bytes_per_token() == 20 * KIB


def test_the_hybrid_35b_keeps_2_mib_of_float32_state_a_layer_and_its_convolution_tail() -> None:
    one = built_in("qwen3.5-35b-a3b")

    assert one.state_bytes == 30 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)


def test_a_config_on_disk_is_read_and_a_nested_text_config_too(tmp_path: Path) -> None:
    text = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    }
    plain, nested = tmp_path / "config.json", tmp_path / "nested.json"
    plain.write_text(json.dumps(text))
    nested.write_text(json.dumps({"model_type": "outer", "text_config": text}))

    one = architecture.from_file(plain, "tiny")

    assert one.parameters == dense(64, 2, 4, 2, 16, 128, 100) - 100 * 64
    assert architecture.from_file(nested, "tiny") == one


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "rwkv"}, "model_type = rwkv, must be one of llama"),
        ({"model_type": "llama", "hidden_size": 64}, "must be given"),
        ({}, "model_type = nothing"),
        ({"model_type": "llama", "num_attention_heads": 0}, "num_attention_heads = 0, must be"),
        ({"model_type": "llama", "hidden_size": "abc"}, "hidden_size = abc, must be at least 1"),
    ],
)
def test_a_config_that_cannot_be_counted_says_why(
    config: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))

    with pytest.raises(SpecError, match=message):
        architecture.from_file(path)


def test_an_unreadable_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"config\.json"):
        architecture.from_file(tmp_path / "config.json")


def test_a_built_in_answers_to_its_hub_id_too() -> None:
    assert built_in("meta-llama/Llama-3.1-8B-Instruct") == built_in("llama-3.1-8b")
    assert isinstance(built_in("Qwen/Qwen3-8B"), Architecture)
