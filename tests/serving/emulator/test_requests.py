from collections.abc import Mapping
from dataclasses import replace

import pytest

from neuronfleet.serving.emulator.errors import ApiError
from neuronfleet.serving.emulator.requests import Ask, parse, read_body
from neuronfleet.serving.emulator.sampling import Kind
from neuronfleet.serving.emulator.serve import ReplicaSettings
from neuronfleet.serving.emulator.tokens import expected_text


def completion(settings: ReplicaSettings, **body: object) -> Ask:
    return parse(Kind.COMPLETION, {"prompt": [1] * 10, **body}, settings)


def refusal(settings: ReplicaSettings, **body: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        completion(settings, **body)
    return caught.value


def test_a_prompt_as_long_as_the_last_prefill_bucket_is_refused(settings: ReplicaSettings) -> None:
    roomy = replace(settings, max_model_len=4096)

    assert completion(roomy, prompt=[1] * 2047).prompts[0].tokens == 2047
    error = refusal(roomy, prompt=[1] * 2048)
    assert (error.status, error.param) == (400, "input_tokens")
    assert "must be below 2048" in error.message


def test_generation_1_refuses_what_generation_2_cuts(settings: ReplicaSettings) -> None:
    asked = {"prompt": [1] * 1025, "max_tokens": 1024}

    assert completion(settings, **asked).outputs[0].tokens == 1023
    error = refusal(replace(settings, generation=1), **asked)
    assert error.status == 400
    assert "(1024 > 2048 - 1025)" in error.message


def test_messages_name_the_value_and_the_limit(settings: ReplicaSettings) -> None:
    over = "max_tokens=5000 cannot be greater than max_model_len=2048."

    assert refusal(settings, max_tokens=5000).message.startswith(over)
    assert refusal(settings, n=0).message == "n must be at least 1, got 0."
    assert refusal(settings, max_tokens=0).message == (
        "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
    )
    assert refusal(settings, model="nope").message == (
        "The model `nope` does not exist. Valid aliases: tiny, alias."
    )


def test_a_truncation_may_stand_for_the_whole_context(settings: ReplicaSettings) -> None:
    asked = completion(settings, prompt=[1] * 3000, truncate_prompt_tokens=100)
    error = refusal(settings, truncate_prompt_tokens=0)

    assert asked.prompts[0].tokens == 100
    assert completion(settings, truncate_prompt_tokens=-1).prompts[0].tokens == 10
    assert (error.status, error.param) == (400, "body.truncate_prompt_tokens")


def test_echo_is_refused_and_logprobs_fail_as_on_the_device(settings: ReplicaSettings) -> None:
    assert refusal(settings, echo=True).status == 400
    assert refusal(settings, logprobs=1).status == 500


def test_an_alias_is_answered_under_its_own_name(settings: ReplicaSettings) -> None:
    assert completion(settings, model="alias").model == "alias"
    assert completion(settings).model == "tiny"


def test_choices_of_one_prompt_differ_and_the_first_is_the_expected_one(
    settings: ReplicaSettings,
) -> None:
    outputs = completion(settings, n=3, temperature=1, max_tokens=9).outputs
    texts = [output.piece(0, 9).decode() for output in outputs]

    assert texts[0] == expected_text([1] * 10, 9)
    assert len(set(texts)) == 3


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(b"{", "application/json"), (b"\xff", "application/json"), (b"{}", "text/plain")],
)
def test_what_is_no_json_is_bad(data: bytes, content_type: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_body(data, content_type)
    assert caught.value.status == 400


def test_a_body_is_read() -> None:
    body: Mapping[str, object] = read_body(b'{"n": 2}', "application/json")

    assert body == {"n": 2}
