import json
from dataclasses import replace

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.serve import BootSettings, ReplicaSettings, from_json, to_json


def test_settings_survive_json(settings: ReplicaSettings) -> None:
    full = replace(
        settings,
        kv_tokens=65_536,
        faults=(Fault.HANG, Fault.SLOW_BOOT),
        boot=BootSettings(graphs_miss_seconds=2372, graph_hit=False, missed_field="max_num_seqs"),
    )

    assert from_json(to_json(full)) == full
    assert from_json(to_json(settings)) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("models", ()),
        ("slots", 0),
        ("max_model_len", 1),
        ("kv_tokens", 100),
        ("port", 70_000),
        ("state_port", -1),
        ("generation", 3),
        ("time_scale", 0.0),
        ("stream_interval", 0),
        ("slow_boot_factor", 0.5),
        ("void_above_ms", 0.0),
        ("drain_seconds", -1.0),
    ],
)
def test_a_value_out_of_range_is_named_with_its_range(
    settings: ReplicaSettings, name: str, value: object
) -> None:
    with pytest.raises(SpecError, match=rf"{name} = .*, must be in [\[(]"):
        replace(settings, **{name: value})  # type: ignore[arg-type]  # wrong on purpose


def test_all_problems_are_told_at_once(settings: ReplicaSettings) -> None:
    with pytest.raises(SpecError) as caught:
        replace(settings, slots=0, generation=9)

    assert [problem.path for problem in caught.value.problems] == ["slots", "generation"]


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(SpecError, match=r"weights_seconds = -1, must be in"):
        BootSettings(weights_seconds=-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": "8"}, "settings.slots = '8', must be a whole number"),
        ({"slots": None}, "must be complete"),
        ({"slots": 8.5}, "must be a whole number"),
        ({"colour": 1}, "settings.colour = 1, must be in"),
        ({"faults": ["on-fire"]}, "settings.faults = 'on-fire', must be in"),
        ({"timing": {"basis": "measured"}}, "settings.timing"),
        ({"models": "tiny"}, "must be a list"),
        ({"boot": {"graph_hit": 1}}, "settings.boot.graph_hit = 1, must be in"),
        ({"host": 5}, "must be a string"),
    ],
)
def test_json_that_is_wrong_says_where(
    settings: ReplicaSettings, changes: dict[str, object], message: str
) -> None:
    raw = json.loads(to_json(settings)) | changes

    with pytest.raises(SpecError) as caught:
        from_json(json.dumps(raw))
    assert message in str(caught.value)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(SpecError, match="must be JSON"):
        from_json("{")
    with pytest.raises(SpecError, match="must be an object"):
        from_json("[]")


def test_the_ceiling_is_slots_or_what_memory_holds(settings: ReplicaSettings) -> None:
    assert settings.ceiling == 8
    assert replace(settings, kv_tokens=5 * 2048 + 2047).ceiling == 5
    assert replace(settings, kv_tokens=63 * 2048).ceiling == 8


def test_generation_1_echoes_its_settings_as_kv_tokens(settings: ReplicaSettings) -> None:
    first = replace(settings, generation=1, kv_tokens=5 * 2048)

    assert first.logged_kv_tokens == (8 + 1) * 2048
    assert replace(first, generation=2).logged_kv_tokens == 5 * 2048
