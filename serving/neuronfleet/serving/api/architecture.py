"""What a model's `config.json` says about bytes and operations. No weights are read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from neuronfleet.serving.api.problems import SpecError

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1, "int8": 1}
_DENSE = ("llama", "mistral", "qwen2", "qwen3")
_SIZES = (
    "_size",
    "_layers",
    "_heads",
    "_dim",
    "_experts",
    "_interval",
    "_per_tok",
    "position_embeddings",
)
_HYBRID_MOE = ("qwen3_5_moe", "qwen3_5_moe_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes of one model, from its config alone."""

    name: str
    family: str
    """`model_type` of the config; decides which backend generations serve it."""
    hidden: int
    layers: int
    attention_layers: int
    """Layers that keep a KV cache; the rest keep a recurrent state."""
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    """Longest sequence the model was made for, tokens."""
    parameters: int
    active_parameters: int
    """Parameters read for one token: with the LM head, without the input embedding."""
    dense_parameters: int
    """Active parameters that every token reads whatever its routing."""
    expert_parameters: int = 0
    """One routed expert's, of one layer."""
    experts: int = 0
    experts_per_token: int = 0
    published_weight_gb: float | None = None
    """Size of the checkpoint as its publisher states it, where that differs from the count."""
    state_bytes: int = 0
    """Recurrent state of one sequence: float32 matrices and the bfloat16 convolution tail."""

    def weight_bytes(self, dtype: str = "bfloat16") -> int:
        """Bytes of all weights in `dtype`."""
        return self.parameters * DTYPE_BYTES[dtype]

    def kv_bytes_per_token(self, dtype: str = "bfloat16") -> int:
        """Bytes of keys and values that one token adds over all attention layers."""
        return 2 * self.attention_layers * self.kv_heads * self.head_dim * DTYPE_BYTES[dtype]


def from_config(name: str, config: Mapping[str, Any]) -> Architecture:
    """Sizes from a Hugging Face config.

    Raises:
        SpecError: a field is missing, or the family's layers are not known here.
    """
    text = config.get("text_config", config)
    if not isinstance(text, Mapping):
        raise SpecError(f"config.json of {name}: text_config = {text}, must be a mapping")
    _check_sizes(name, text)
    family = str(text.get("model_type", config.get("model_type", "")))
    try:
        if family in _DENSE:
            return _dense(name, family, text)
        if family in _HYBRID_MOE:
            return _hybrid_moe(name, "qwen3_5_moe", text)
    except KeyError as missing:
        raise SpecError(f"config.json of {name}: {missing} = nothing, must be given") from missing
    raise SpecError(
        f"config.json of {name}: model_type = {family or 'nothing'}, "
        f"must be one of {', '.join((*_DENSE, *_HYBRID_MOE))} to be counted"
    )


def _check_sizes(name: str, text: Mapping[str, Any]) -> None:
    """Every size that is there must be a whole number above 0."""
    for field, value in text.items():
        if field.endswith(_SIZES) and value is not None:
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or value < 1:
                raise SpecError(f"config.json of {name}: {field} = {value}, must be at least 1")


def from_file(path: Path, name: str | None = None) -> Architecture:
    """Sizes from a `config.json` on disk."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else wrong
        raise SpecError(f"{path}: {reason}, must be a readable config.json") from wrong
    if not isinstance(config, dict):
        raise SpecError(f"{path}: holds no mapping, must be a readable config.json")
    return from_config(name or path.parent.name, config)


def known_models() -> dict[str, str]:
    """Names of the built-in architectures and the Hugging Face ids that they answer to."""
    names = {}
    for entry in resources.files(__package__).joinpath("models").iterdir():
        if entry.name.endswith(".json"):
            config = json.loads(entry.read_text())
            names[entry.name.removesuffix(".json")] = str(config["_name_or_path"])
    return dict(sorted(names.items()))


def built_in(name: str) -> Architecture:
    """A built-in architecture by its name or Hugging Face id.

    Raises:
        SpecError: no such name.
    """
    for known, hub_id in known_models().items():
        if name.lower() in (known, hub_id.lower()):
            file = resources.files(__package__).joinpath(f"models/{known}.json")
            return from_config(known, json.loads(file.read_text()))
    raise SpecError(f"architecture = {name}, must be one of {', '.join(known_models())}")


def _attention(text: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Hidden size, query heads, KV heads and head dimension."""
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    return hidden, heads, text["num_key_value_heads"], text.get("head_dim") or hidden // heads


def _dense(name: str, family: str, text: Mapping[str, Any]) -> Architecture:
    hidden, heads, kv_heads, head_dim = _attention(text)
    layers, vocabulary = text["num_hidden_layers"], text["vocab_size"]
    projections = hidden * head_dim * (2 * heads + 2 * kv_heads)
    biases = head_dim * (heads + 2 * kv_heads) if family == "qwen2" else 0
    qk_norms = 2 * head_dim if family == "qwen3" else 0
    mlp = 3 * hidden * text["intermediate_size"]
    body = layers * (projections + biases + qk_norms + mlp + 2 * hidden) + hidden
    embedding = vocabulary * hidden
    tied = bool(text.get("tie_word_embeddings", False))
    return Architecture(
        name=name,
        family=family,
        hidden=hidden,
        layers=layers,
        attention_layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=vocabulary,
        context=text["max_position_embeddings"],
        parameters=body + embedding * (1 if tied else 2),
        active_parameters=body + embedding,
        dense_parameters=body + embedding,
    )


def _hybrid_moe(name: str, family: str, text: Mapping[str, Any]) -> Architecture:
    """Gated DeltaNet and gated attention layers, a mixture of experts after each."""
    hidden, heads, kv_heads, head_dim = _attention(text)
    layers, vocabulary = text["num_hidden_layers"], text["vocab_size"]
    attention_layers = layers // text["full_attention_interval"]
    delta_layers = layers - attention_layers
    # q_proj carries the output gate beside the query, hence heads twice.
    attention = hidden * head_dim * (3 * heads + 2 * kv_heads) + 2 * head_dim
    delta, state = _delta_net(hidden, text)
    expert = 3 * hidden * text["moe_intermediate_size"]
    experts = text["num_experts"]
    shared = 3 * hidden * text["shared_expert_intermediate_size"] + hidden
    always = shared + hidden * experts + 2 * hidden
    body = attention_layers * attention + delta_layers * delta + layers * always + hidden
    embedding = vocabulary * hidden
    dense = body + embedding
    return Architecture(
        name=name,
        family=family,
        hidden=hidden,
        layers=layers,
        attention_layers=attention_layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocabulary=vocabulary,
        context=text["max_position_embeddings"],
        parameters=dense + layers * experts * expert + embedding,
        active_parameters=dense + layers * text["num_experts_per_tok"] * expert,
        dense_parameters=dense,
        expert_parameters=expert,
        experts=experts,
        experts_per_token=text["num_experts_per_tok"],
        published_weight_gb=text.get("_published_weight_gb"),
        state_bytes=delta_layers * state,
    )


def _delta_net(hidden: int, text: Mapping[str, Any]) -> tuple[int, int]:
    """Parameters and state bytes of one Gated DeltaNet layer."""
    key_width = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    value_heads = text["linear_num_value_heads"]
    value_width = value_heads * text["linear_value_head_dim"]
    convolved = 2 * key_width + value_width
    kernel = text["linear_conv_kernel_dim"]
    projections = hidden * (convolved + value_width + 2 * value_heads) + value_width * hidden
    small = convolved * kernel + 2 * value_heads + text["linear_value_head_dim"]
    matrices = value_heads * text["linear_key_head_dim"] * text["linear_value_head_dim"]
    state = matrices * DTYPE_BYTES["float32"] + convolved * (kernel - 1) * DTYPE_BYTES["bfloat16"]
    return projections + small, state
