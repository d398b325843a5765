import json
from pathlib import Path
from typing import Any

import pytest

from neuronfleet_replica.command import command, environment
from neuronfleet_replica.fields import SettingsError
from neuronfleet_replica.settings import parse
from tests.images.replica.helpers import RAW, changed

MODEL = Path("/models/m")
GENERATION_2: dict[str, Any] = {"variant__generation": 2, "variant__logicalCoreSize": 2}


def made(draft: Path | None = None, **changes: Any) -> list[str]:
    return command(parse(changed(RAW, **changes)), MODEL, draft)


def option(arguments: list[str], name: str) -> str | None:
    return arguments[arguments.index(name) + 1] if name in arguments else None


def config(arguments: list[str]) -> Any:
    return json.loads(option(arguments, "--additional-config") or "{}")


@pytest.mark.parametrize("generation", [1, 2])
def test_the_model_is_a_local_directory_served_under_its_own_name(generation: int) -> None:
    arguments = made(variant__generation=generation, port=8123)

    assert arguments[:5] == ["vllm", "serve", "/models/m", "--served-model-name", "llama"]
    assert option(arguments, "--port") == "8123"
    assert option(arguments, "--tensor-parallel-size") == "2"
    assert option(arguments, "--max-model-len") == "2048"
    assert option(arguments, "--max-num-seqs") == "4"
    assert option(arguments, "--dtype") == "bfloat16"


def test_generation_1_takes_buckets_and_lnc_by_underscored_keys() -> None:
    arguments = made(variant__prefillBuckets=[256, 2048], variant__decodeBuckets=[512, 2048])

    assert config(arguments) == {
        "override_neuron_config": {
            "context_encoding_buckets": [256, 2048],
            "token_generation_buckets": [512, 2048],
            "logical_nc_config": 1,
        }
    }


def test_generation_1_holds_one_block_a_sequence_without_prefix_caching() -> None:
    arguments = made()

    assert option(arguments, "--num-gpu-blocks-override") == "4"
    assert "--no-enable-prefix-caching" in arguments
    assert "--block-size" not in arguments


def test_generation_1_with_blocks_declared_has_the_block_layout() -> None:
    arguments = made(variant__kvCache__blocks=300)

    assert config(arguments)["override_neuron_config"] == {
        "logical_nc_config": 1,
        "is_prefix_caching": True,
        "is_block_kv_layout": True,
        "pa_num_blocks": 300,
        "pa_block_size": 32,
    }
    assert option(arguments, "--num-gpu-blocks-override") == "300"
    assert option(arguments, "--block-size") == "32"
    assert "--enable-prefix-caching" in arguments


@pytest.mark.parametrize(("dtype", "name"), [("fp8", "f8e4m3"), ("int8", "int8")])
def test_generation_1_reads_a_quantized_checkpoint_from_the_snapshot(dtype: str, name: str) -> None:
    arguments = made(variant__weightDtype=dtype, variant__kvCache__dtype="fp8")

    override = config(arguments)["override_neuron_config"]
    assert override["quantized"] is True
    assert override["quantization_dtype"] == name
    assert override["quantized_checkpoints_path"] == "/models/m"
    assert override["kv_cache_quant"] is True
    assert "--kv-cache-dtype" not in arguments


def test_generation_2_takes_its_own_buckets_and_pins_the_blocks() -> None:
    arguments = made(
        **GENERATION_2,
        variant__prefillBuckets=[512, 1024],
        variant__decodeBuckets=[512, 1024, 2048],
        variant__kvCache={"dtype": "fp8", "blocks": 512, "blockSize": 64},
    )

    assert config(arguments) == {
        "neuron_config": {
            "num_batched_tokens_buckets": [512, 1024],
            "kv_segment_size_buckets": [512, 1024],
            "decode_context_length_buckets": [512, 1024],
        }
    }
    assert option(arguments, "--max-num-batched-tokens") == "1024"
    assert option(arguments, "--num-gpu-blocks-override") == "512"
    assert option(arguments, "--block-size") == "64"
    assert option(arguments, "--kv-cache-dtype") == "fp8"
    assert "--enable-prefix-caching" in arguments


def test_generation_2_without_segments_caches_no_prefix_and_prefills_whole_prompts() -> None:
    arguments = made(**GENERATION_2)

    assert option(arguments, "--max-num-batched-tokens") == "2048"
    assert "--no-enable-prefix-caching" in arguments
    assert "--num-gpu-blocks-override" not in arguments
    assert "--additional-config" not in arguments


def test_a_draft_model_is_a_local_directory_too() -> None:
    speculation = {"method": "eagle", "draftModel": "org/draft", "tokens": 5}

    arguments = made(Path("/models/d"), variant__speculation=speculation)

    assert json.loads(option(arguments, "--speculative-config") or "") == {
        "method": "eagle",
        "model": "/models/d",
        "num_speculative_tokens": 5,
    }


@pytest.mark.parametrize(
    "extra",
    [
        ["--additional-config", '{"override_neuron_config": {"a": 1, "logical_nc_config": 2}}'],
        ['--additional-config={"override_neuron_config": {"a": 1, "logical_nc_config": 2}}'],
    ],
)
def test_extra_arguments_come_last_and_their_config_is_merged_and_wins(extra: list[str]) -> None:
    arguments = made(variant__extraArgs=["--seed", "1", *extra])

    assert arguments[-2:] == ["--seed", "1"]
    assert config(arguments) == {"override_neuron_config": {"logical_nc_config": 2, "a": 1}}
    assert arguments.count("--additional-config") == 1


@pytest.mark.parametrize("text", ["[]", "{", ""])
def test_an_extra_config_that_is_no_object_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="must be a JSON object"):
        made(variant__extraArgs=["--additional-config", text])


def test_the_environment_closes_the_hub_and_the_variants_own_wins() -> None:
    settings = parse(changed(RAW, variant__env={"HF_HUB_OFFLINE": "0", "X": "y"}))

    assert environment(settings) == {
        "HF_HUB_OFFLINE": "0",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "NEURON_LOGICAL_NC_CONFIG": "1",
        "X": "y",
    }


def test_no_core_size_is_said_where_none_is_given() -> None:
    settings = parse(changed(RAW, variant__logicalCoreSize=None))

    assert "NEURON_LOGICAL_NC_CONFIG" not in environment(settings)
    assert "logical_nc_config" not in str(command(settings, MODEL))
