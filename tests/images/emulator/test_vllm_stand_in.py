import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet_replica.command import command
from neuronfleet_replica.settings import parse
from tests.images.replica.helpers import RAW, changed
from vllm_stand_in import settings_of


def emulated(
    arguments: list[str], environ: Mapping[str, str] | None = None
) -> tuple[ReplicaSettings, list[str]]:
    return settings_of(["serve", *arguments], environ or {})


def launched(tmp_path: Path, **changes: Any) -> ReplicaSettings:
    """What comes of the command line that a replica's own program makes."""
    arguments = command(parse(changed(RAW, **changes)), tmp_path)
    assert arguments[:1] == ["vllm"]
    return settings_of(arguments[1:], {})[0]


def test_the_replicas_command_line_is_understood(tmp_path: Path) -> None:
    settings = launched(tmp_path, variant__prefillBuckets=[256, 2048], port=8123)

    assert settings.models == ("llama",)
    assert (settings.host, settings.port) == ("0.0.0.0", 8123)
    assert (settings.ceiling, settings.max_model_len) == (4, 2048)
    assert settings.generation == 1
    assert settings.timing.prefill.tokens == (256, 2048)


def test_generation_2_has_the_ceiling_of_its_blocks(tmp_path: Path) -> None:
    settings = launched(
        tmp_path,
        variant__generation=2,
        variant__kvCache__blocks=128,
        variant__decodeBuckets=[512],
    )

    assert settings.generation == 2
    assert settings.ceiling == 2
    assert settings.timing.decode.tokens == (512, 2048)


def test_flags_without_meaning_are_named() -> None:
    _, unknown = emulated(["m", "--dtype", "bfloat16", "--no-enable-prefix-caching"])

    assert unknown == ["--dtype", "bfloat16", "--no-enable-prefix-caching"]


def test_the_environment_sets_time_boot_and_faults() -> None:
    settings, _ = emulated(
        ["m"],
        {
            "EMULATOR_TIME_SCALE": "20",
            "EMULATOR_BOOT_SECONDS": "600",
            "EMULATOR_DRAIN_SECONDS": "30.5",
            "EMULATOR_FAULTS": "slow-boot, hang",
            "EMULATOR_STATE_PORT": "8001",
        },
    )

    assert settings.time_scale == 20
    assert settings.boot.weights_seconds == 600
    assert settings.drain_seconds == 30.5
    assert settings.faults == (Fault.SLOW_BOOT, Fault.HANG)
    assert settings.state_port == 8001


def test_a_boot_may_be_told_by_phases() -> None:
    settings, _ = emulated(["m"], {"EMULATOR_BOOT_SECONDS": '{"warm_up_seconds": 3}'})

    assert settings.boot.warm_up_seconds == 3


def test_a_timing_may_be_given_whole() -> None:
    default, _ = emulated(["m"])
    timing = asdict(default.timing) | {"first_ms": 1.5, "source": "given"}

    settings, _ = emulated(["m"], {"EMULATOR_TIMING": json.dumps(timing)})

    assert settings.timing.first_ms == 1.5


@pytest.mark.parametrize(
    "environ",
    [
        {"EMULATOR_TIME_SCALE": "fast"},
        {"EMULATOR_TIME_SCALE": "0"},
        {"EMULATOR_FAULTS": "typo"},
        {"EMULATOR_TIMING": "{}"},
        {"EMULATOR_BOOT_SECONDS": "-1"},
    ],
)
def test_a_wrong_variable_is_one_error(environ: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="must be"):
        emulated(["m"], environ)


def test_a_model_that_is_no_directory_is_refused_as_vllm_refuses_it() -> None:
    with pytest.raises(SpecError, match="model = /no/such, must be a directory"):
        emulated(["/no/such"])
