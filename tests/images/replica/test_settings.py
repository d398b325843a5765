import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from neuronfleet_replica.fields import SettingsError
from neuronfleet_replica.settings import Settings, from_environment, parse
from tests.images.replica.helpers import RAW, changed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__name": ""}, "model.name = '', must be a text"),
        ({"model__name": None}, "model.name is missing"),
        ({"model__source__kind": "ftp"}, "model.source.kind = 'ftp', must be one of huggingFace"),
        ({"model__source__location": "llama"}, "model.source.location = 'llama', must be like"),
        ({"model__source__revision": "a b"}, "model.source.revision = 'a b'"),
        ({"variant__generation": 3}, "variant.generation = 3, must be a whole number in [1, 2]"),
        ({"variant__generation": True}, "variant.generation = True, must be a whole number"),
        ({"variant__maxModelLen": "2048"}, "variant.maxModelLen = '2048', must be a whole"),
        ({"variant__maxNumSeqs": 0}, "variant.maxNumSeqs = 0, must be a whole number in [1, 4096]"),
        ({"variant__logicalCoreSize": 3}, "variant.logicalCoreSize = 3"),
        ({"variant__computeDtype": "fp8"}, "variant.computeDtype = 'fp8', must be one of float32"),
        ({"variant__kvCache__dtype": "fp4"}, "variant.kvCache.dtype = 'fp4'"),
        ({"variant__kvCache__blocks": 63}, "variant.kvCache.blocks = 63, must be at least 64"),
        ({"variant__prefillBuckets": [512, 256]}, "variant.prefillBuckets = [512, 256]"),
        ({"variant__prefillBuckets": [4096]}, "variant.prefillBuckets = 4096, must be a whole"),
        ({"variant__extraArgs": "--x"}, "variant.extraArgs = '--x', must be a list of texts"),
        ({"variant__env": {"A": 1}}, "variant.env = {'A': 1}, must be an object of texts"),
        ({"variant__speculation": []}, "variant.speculation = [], must be an object"),
        ({"canary__maxTokens": 0}, "canary.maxTokens = 0"),
        ({"canary__expect": "("}, "canary.expect = '(', must be a regular expression"),
        ({"canary": None}, "canary is missing"),
        ({"port": 0}, "port = 0, must be a whole number in [1, 65535]"),
    ],
)
def test_a_wrong_field_is_one_error_that_names_it(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        parse(changed(RAW, **changes))

    assert str(wrong.value).startswith(message)


@pytest.mark.parametrize(
    ("generation", "method", "good"),
    [(1, "eagle", True), (1, "draft", True), (1, "dflash", False), (2, "eagle3", True)],
)
def test_speculation_is_of_the_methods_that_the_generation_runs(
    generation: int, method: str, good: bool
) -> None:
    speculation = {"method": method, "draftModel": "org/draft", "tokens": 3}
    raw = changed(RAW, variant__generation=generation, variant__speculation=speculation)

    if good:
        assert parse(raw).variant.speculation is not None
    else:
        with pytest.raises(SettingsError, match=r"variant\.speculation\.method"):
            parse(raw)


@pytest.mark.parametrize(
    ("field", "value"),
    [("decodeBuckets", [200, 2048]), ("prefillBuckets", [128, 1024])],
)
def test_generation_2_takes_the_bucket_sizes_of_its_kernels(field: str, value: list[int]) -> None:
    with pytest.raises(SettingsError, match=rf"variant\.{field}"):
        parse(changed(RAW, variant__generation=2, **{f"variant__{field}": value}))


@pytest.mark.parametrize("location", ["/a/../etc", "/.."])
def test_no_path_leads_upwards(location: str) -> None:
    with pytest.raises(SettingsError, match="without a part"):
        parse(changed(RAW, model__source={"kind": "path", "location": location}))


def test_what_is_not_known_is_ignored_and_told() -> None:
    settings = parse(changed(RAW, variant__zones=["a"], extra=1))

    assert settings.ignored == ("variant.zones", "extra")


def test_what_may_be_left_out_has_a_default() -> None:
    raw = {
        "model": {"name": "m", "source": {"kind": "path", "location": "/m"}},
        "variant": {"name": "v", "generation": 1, "maxModelLen": 128, "maxNumSeqs": 2},
        "canary": {"prompt": "x"},
    }

    settings = parse(raw)

    assert (settings.port, settings.canary.max_tokens) == (8000, 4)
    assert settings.variant.logical_core_size is None
    assert settings.variant.kv_dtype == settings.variant.weight_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("blocks", "ceiling"), [(None, 4), (64, 1), (255, 3), (256, 4), (10_000, 4)]
)
def test_the_ceiling_is_law_1(blocks: int | None, ceiling: int) -> None:
    assert parse(changed(RAW, variant__kvCache__blocks=blocks)).variant.ceiling == ceiling


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_a_variable_that_is_no_object_is_one_error(text: str) -> None:
    with pytest.raises(SettingsError):
        from_environment({"NEURONFLEET_REPLICA": text})


@examples(deadline=None)
@given(JSON)
def test_any_json_is_settings_or_one_error(raw: object) -> None:
    try:
        made: Settings | str = from_environment({"NEURONFLEET_REPLICA": json.dumps(raw)})
    except SettingsError as wrong:
        made = str(wrong)

    assert made
