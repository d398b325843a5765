"""vLLM's command line and environment of a replica, for each backend generation."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuronfleet_replica.fields import SettingsError
from neuronfleet_replica.settings import Settings, Variant

_ADDITIONAL = "--additional-config"
_QUANTIZED = {"int8": "int8", "fp8": "f8e4m3"}
"""NxDI's names of weight dtypes that are quantized."""


def command(settings: Settings, model: Path, draft: Path | None = None) -> list[str]:
    """The server's command, the model being at `model` and a draft model at `draft`.

    Raises:
        SettingsError: `extraArgs` hold an --additional-config that is no JSON object.
    """
    variant = settings.variant
    extra, given = _take_additional(variant.extra_args)
    made = _generation_1(variant, model) if variant.generation == 1 else _generation_2(variant)
    options, config = made
    arguments = ["vllm", "serve", str(model), "--served-model-name", settings.model]
    arguments += ["--host", "0.0.0.0", "--port", str(settings.port)]
    arguments += ["--tensor-parallel-size", str(variant.tensor_parallel)]
    arguments += ["--max-model-len", str(variant.max_model_len)]
    arguments += ["--max-num-seqs", str(variant.max_num_seqs)]
    arguments += ["--dtype", variant.compute_dtype, *options, *_speculative(variant, draft)]
    merged = _merge(config, given)
    if any(merged.values()):
        arguments += [_ADDITIONAL, json.dumps(merged, separators=(",", ":"))]
    return [*arguments, *extra]


def environment(settings: Settings) -> dict[str, str]:
    """What the server's environment holds beyond the image's; the variant's own wins.

    The hub is closed: a server given a hub id saves the checkpoint anew at each boot, about 950 s
    of it for an 8B model, and one that finds a file missing must say so and not fetch it.
    """
    made = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if settings.variant.logical_core_size is not None:
        # Graphs and runtime must agree; the runtime's own default is the chip's.
        made["NEURON_LOGICAL_NC_CONFIG"] = str(settings.variant.logical_core_size)
    return {**made, **settings.variant.env}


def _generation_1(variant: Variant, model: Path) -> tuple[list[str], dict[str, Any]]:
    """NxDI reads these keys with underscores; its documents print hyphens, which it ignores."""
    config: dict[str, Any] = {}
    if variant.prefill_buckets:
        config["context_encoding_buckets"] = list(variant.prefill_buckets)
    if variant.decode_buckets:
        config["token_generation_buckets"] = list(variant.decode_buckets)
    if variant.logical_core_size is not None:
        config["logical_nc_config"] = variant.logical_core_size
    if variant.weight_dtype in _QUANTIZED:
        config["quantized"] = True
        config["quantization_dtype"] = _QUANTIZED[variant.weight_dtype]
        config["quantized_checkpoints_path"] = str(model)
    if variant.kv_dtype == "fp8":
        config["kv_cache_quant"] = True
    if variant.kv_blocks is None:
        # One block of max_model_len a sequence; the plugin adds its null block by itself.
        blocks = str(variant.max_num_seqs)
        options = ["--no-enable-prefix-caching", "--num-gpu-blocks-override", blocks]
        return options, {"override_neuron_config": config}
    config["is_prefix_caching"] = config["is_block_kv_layout"] = True
    config["pa_num_blocks"] = variant.kv_blocks
    config["pa_block_size"] = variant.kv_block_size
    options = ["--enable-prefix-caching", "--num-gpu-blocks-override", str(variant.kv_blocks)]
    options += ["--block-size", str(variant.kv_block_size)]
    return options, {"override_neuron_config": config}


def _generation_2(variant: Variant) -> tuple[list[str], dict[str, Any]]:
    """Weight quantization is the checkpoint's own; prefix caching needs segmented prefill."""
    config: dict[str, Any] = {}
    shorter = [size for size in variant.decode_buckets if size < variant.max_model_len]
    if variant.prefill_buckets:
        config["num_batched_tokens_buckets"] = list(variant.prefill_buckets)
    if variant.segmented:
        config["kv_segment_size_buckets"] = list(variant.prefill_buckets)
    if shorter:
        config["decode_context_length_buckets"] = shorter
    batched = (variant.prefill_buckets or (variant.max_model_len,))[-1]
    caching = "--enable-prefix-caching" if variant.segmented else "--no-enable-prefix-caching"
    options = ["--max-num-batched-tokens", str(batched), caching]
    options += ["--block-size", str(variant.kv_block_size)]
    if variant.kv_blocks is not None:
        options += ["--num-gpu-blocks-override", str(variant.kv_blocks)]
    if variant.kv_dtype != variant.compute_dtype:
        options += ["--kv-cache-dtype", variant.kv_dtype]
    return options, {"neuron_config": config}


def _speculative(variant: Variant, draft: Path | None) -> list[str]:
    speculation = variant.speculation
    if speculation is None:
        return []
    config: dict[str, Any] = {"num_speculative_tokens": speculation.tokens}
    if speculation.method != "draft":
        config["method"] = speculation.method
    if draft is not None:
        config["model"] = str(draft)
    return ["--speculative-config", json.dumps(config, separators=(",", ":"))]


def _take_additional(extra: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    """Part an --additional-config from the other extra arguments: it is merged with ours."""
    rest: list[str] = []
    given: dict[str, Any] = {}
    arguments = iter(extra)
    for argument in arguments:
        if argument == _ADDITIONAL:
            given = _merge(given, _object(next(arguments, "")))
        elif argument.startswith(f"{_ADDITIONAL}="):
            given = _merge(given, _object(argument.partition("=")[2]))
        else:
            rest.append(argument)
    return rest, given


def _object(text: str) -> dict[str, Any]:
    where = f"variant.extraArgs: {_ADDITIONAL} = {text!r}, must be a JSON object"
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{where}: {error}") from error
    if not isinstance(value, dict):
        raise SettingsError(where)
    return value


def _merge(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Nested objects key by key; what is given by hand wins."""
    merged = dict(ours)
    for key, value in theirs.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
