"""What a client of vLLM 0.32 relies on, as cases that any server at a URL can be put to.

Shapes, not values: keys and types, object names, finish reasons, the order of chunks, error
statuses and their words' places, the arithmetic of usage, the framing of events.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USAGE = {"prompt_tokens", "total_tokens", "completion_tokens"}
DETAILS = {"prompt_tokens_details", "completion_tokens_details"}
WHOLE = {"id", "object", "created", "model", "choices", "service_tier", "system_fingerprint"}
WHOLE |= {"usage", "kv_transfer_params", "ec_transfer_params", "metrics"}
CHOICE = {"index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids"}
CHOICE |= {"prompt_logprobs", "prompt_token_ids", "routed_experts"}
CHUNK = {"id", "object", "created", "model", "choices"}
CHUNK_CHOICE = {"index", "text", "logprobs", "finish_reason", "stop_reason"}
CHUNK_CHOICE |= {"prompt_token_ids", "token_ids"}


OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
"""What Prometheus 2 accepts."""
# Token buckets are those of a context of 2048.
HISTOGRAMS = {
    "time_to_first_token_seconds": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 "
    "5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0 +Inf",
    "inter_token_latency_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 "
    "5.0 7.5 10.0 20.0 40.0 80.0 +Inf",
    "request_time_per_output_token_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 "
    "1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 +Inf",
    "request_prompt_tokens": "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 +Inf",
    "request_generation_tokens": "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 +Inf",
    "iteration_tokens_total": "1.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 2048.0 4096.0 "
    "8192.0 16384.0 +Inf",
    "request_params_n": "1.0 2.0 5.0 10.0 20.0 +Inf",
} | {
    f"{name}_seconds": "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 "
    "240.0 480.0 960.0 1920.0 7680.0 +Inf"
    for name in (
        "e2e_request_latency",
        "request_queue_time",
        "request_inference_time",
        "request_prefill_time",
        "request_decode_time",
    )
}
COUNTERS = [
    "prompt_tokens",
    "generation_tokens",
    "request_success",
    "num_preemptions",
    "prefix_cache_queries",
    "prefix_cache_hits",
]
GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server under the cases."""

    url: str
    model: str
    max_model_len: int

    def send(self, path: str, body: object = None, raw: bytes | None = None) -> tuple[int, str]:
        """POST a body, or GET where there is none: status and text."""
        data = json.dumps(body).encode() if body is not None else raw
        request = urllib.request.Request(self.url + path, data=data)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def scrape(self, path: str, accept: str) -> tuple[str, str]:
        """Content type and text of a metrics page."""
        request = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.headers["Content-Type"], reply.read().decode()

    def completion(self, **more: object) -> dict[str, Any]:
        """A completion that is answered."""
        status, text = self.send(COMPLETIONS, self.asked(**more))
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def asked(self, **more: object) -> dict[str, object]:
        """A small completion request; a field given as None is left out."""
        base: dict[str, object] = {"model": self.model, "prompt": [5, 6, 7], "max_tokens": 4}
        base |= {"temperature": 0, "ignore_eos": True}
        return {name: value for name, value in (base | more).items() if value is not None}

    def talked(self, **more: object) -> dict[str, object]:
        """A small chat request."""
        return self.asked(
            **{"messages": [{"role": "user", "content": "hi"}], "prompt": None, **more}
        )

    def events(self, path: str, body: dict[str, object]) -> list[dict[str, Any]]:
        """The events of a stream, framing checked."""
        status, text = self.send(path, body | {"stream": True})
        assert status == 200, text
        parts = text.split("\n\n")
        assert parts[-1] == ""
        assert parts[-2] == "data: [DONE]"
        assert all(part.startswith("data: ") for part in parts[:-1])
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def refusal(self, path: str, body: object, raw: bytes | None = None) -> tuple[int, str, Any]:
        """Status, type and param of an error, its shape checked."""
        status, text = self.send(path, body, raw)
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["code"] == status
        return status, error["type"], error["param"]


def server_at(url: str) -> Server:
    """The server at `url`, its model read from it."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as reply:
        card = json.loads(reply.read())["data"][0]
    return Server(url=url, model=card["id"], max_model_len=card["max_model_len"])


def models_lists_a_card_with_the_context(server: Server) -> None:
    status, text = server.send("/v1/models")
    listed = json.loads(text)

    assert status == 200
    assert listed["object"] == "list"
    card = listed["data"][0]
    assert set(card) == {"id", "object", "created", "owned_by", "root", "parent"} | {
        "max_model_len",
        "permission",
    }
    assert (card["object"], card["owned_by"], card["parent"]) == ("model", "vllm", None)


def plain_endpoints_answer(server: Server) -> None:
    assert server.send("/health") == (200, "")
    assert server.send("/ping") == (200, "")
    status, text = server.send("/version")
    assert (status, set(json.loads(text))) == (200, {"version"})
    assert server.send("/nosuch") == (404, '{"detail":"Not Found"}')
    assert server.send(COMPLETIONS) == (405, '{"detail":"Method Not Allowed"}')


def a_completion_has_these_keys(server: Server) -> None:
    reply = server.completion()

    assert set(reply) == WHOLE
    assert reply["id"].startswith("cmpl-")
    assert reply["object"] == "text_completion"
    assert isinstance(reply["created"], int)
    assert set(reply["choices"][0]) == CHOICE
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"] == {
        "prompt_tokens": 3,
        "total_tokens": 7,
        "completion_tokens": 4,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def a_completion_defaults_to_sixteen_tokens(server: Server) -> None:
    assert server.completion(max_tokens=None)["usage"]["completion_tokens"] == 16


def greedy_answers_repeat(server: Server) -> None:
    texts = {server.completion(max_tokens=8)["choices"][0]["text"] for _ in range(3)}

    assert len(texts) == 1


def prompts_come_in_four_forms(server: Server) -> None:
    assert len(server.completion(prompt="one two")["choices"]) == 1
    assert [c["index"] for c in server.completion(prompt=["one", "two"])["choices"]] == [0, 1]
    assert server.completion(prompt=[5] * 9)["usage"]["prompt_tokens"] == 9
    two = server.completion(prompt=[[5, 6], [7]])
    assert [c["index"] for c in two["choices"]] == [0, 1]
    assert two["usage"]["prompt_tokens"] == 3
    assert two["usage"]["completion_tokens"] == 8


def n_counts_every_choice(server: Server) -> None:
    reply = server.completion(n=3, temperature=1)

    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["completion_tokens"] == 12
    assert reply["usage"]["total_tokens"] == 15


def max_tokens_is_cut_to_the_context(server: Server) -> None:
    length = server.max_model_len
    reply = server.completion(prompt=[5] * (length - 2), max_tokens=10)

    assert reply["usage"]["completion_tokens"] == 2


def a_prompt_can_be_truncated(server: Server) -> None:
    reply = server.completion(prompt=[5] * 20, truncate_prompt_tokens=4)

    assert reply["usage"]["prompt_tokens"] == 4


def numbers_are_read_leniently(server: Server) -> None:
    reply = server.completion(max_tokens="2", temperature="0.5", n=1.0, unknown_field=1)

    assert reply["usage"]["completion_tokens"] == 2


def a_stop_string_ends_the_answer(server: Server) -> None:
    whole = server.completion(max_tokens=24)["choices"][0]["text"]
    at = next(i for i in range(4, len(whole)) if whole[i] != "\ufffd" and whole[i].isprintable())
    stop = whole[at]
    reply = server.completion(max_tokens=24, stop=[stop])
    choice = reply["choices"][0]

    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] == stop
    assert choice["text"] == whole[: whole.index(stop)]
    assert reply["usage"]["completion_tokens"] < 24
    events = server.events(COMPLETIONS, server.asked(max_tokens=24, stop=stop))
    assert "".join(e["choices"][0]["text"] for e in events) == choice["text"]
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["choices"][0]["stop_reason"] == stop


def a_stream_has_a_chunk_a_token(server: Server) -> None:
    events = server.events(COMPLETIONS, server.asked())

    assert len(events) == 4
    assert all(set(event) == CHUNK for event in events[:-1])
    assert set(events[-1]) == CHUNK | {"system_fingerprint"}
    assert all(set(event["choices"][0]) == CHUNK_CHOICE for event in events)
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None, None, None, "length"]
    assert len({event["id"] for event in events}) == 1
    whole = server.completion()["choices"][0]["text"]
    assert "".join(event["choices"][0]["text"] for event in events) == whole


def usage_comes_last_with_no_choices(server: Server) -> None:
    events = server.events(COMPLETIONS, server.asked(stream_options={"include_usage": True}))

    assert all(set(event) == CHUNK for event in events[:-1])
    assert set(events[-1]) == CHUNK | {"usage", "system_fingerprint"}
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}


def continuous_usage_counts_up(server: Server) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = server.events(COMPLETIONS, server.asked(stream_options=options))

    assert all(set(event["usage"]) == USAGE for event in events)
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 3, 4, 4]
    assert [event["usage"]["total_tokens"] for event in events] == [4, 5, 6, 7, 7]


def continuous_usage_needs_include_usage(server: Server) -> None:
    options = {"continuous_usage_stats": True}
    events = server.events(COMPLETIONS, server.asked(stream_options=options))

    assert not any("usage" in event for event in events)


def streams_of_several_choices_carry_their_index(server: Server) -> None:
    options = {"include_usage": True}
    asked = server.asked(
        prompt=[[5, 6], [7]], n=2, temperature=1, max_tokens=3, stream_options=options
    )
    events = server.events(COMPLETIONS, asked)
    indices = [event["choices"][0]["index"] for event in events[:-1]]
    ends = [e["choices"][0]["index"] for e in events[:-1] if e["choices"][0]["finish_reason"]]

    assert sorted(set(indices)) == [0, 1, 2, 3]
    assert sorted(ends) == [0, 1, 2, 3]
    assert events[-1]["usage"] == {"prompt_tokens": 3, "total_tokens": 15, "completion_tokens": 12}


def a_chat_answer_has_these_keys(server: Server) -> None:
    status, text = server.send(CHAT, server.talked())
    reply = json.loads(text)
    choice = reply["choices"][0]

    assert status == 200
    assert set(reply) == WHOLE | {"prompt_logprobs", "prompt_token_ids", "prompt_text"}
    assert reply["id"].startswith("chatcmpl-")
    assert reply["object"] == "chat.completion"
    assert set(choice) == {"index", "message", "logprobs", "finish_reason", "stop_reason"} | {
        "token_ids",
        "routed_experts",
    }
    assert set(choice["message"]) == {"role", "content", "refusal", "annotations", "audio"} | {
        "function_call",
        "reasoning",
    }
    assert choice["message"]["role"] == "assistant"
    assert set(reply["usage"]) == USAGE | DETAILS
    assert reply["usage"]["completion_tokens"] == 4


def chat_takes_the_newer_limit_and_fills_the_context_without_one(server: Server) -> None:
    newer = json.loads(server.send(CHAT, server.talked(max_completion_tokens=2))[1])
    none = json.loads(server.send(CHAT, server.talked(max_tokens=None))[1])

    assert newer["usage"]["completion_tokens"] == 2
    assert none["usage"]["total_tokens"] == server.max_model_len


def chat_content_may_be_parts_or_absent(server: Server) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    plain = json.loads(server.send(CHAT, server.talked())[1])
    split = json.loads(server.send(CHAT, server.talked(messages=parts))[1])

    assert split["usage"] == plain["usage"]
    assert server.send(CHAT, server.talked(messages=[{"role": "user"}]))[0] == 200


def a_chat_stream_begins_with_the_role(server: Server) -> None:
    events = server.events(CHAT, server.talked())
    choices = [event["choices"][0] for event in events]

    assert events[0]["object"] == "chat.completion.chunk"
    assert set(events[0]) == CHUNK | {"prompt_token_ids", "prompt_text"}
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert set(choices[0]) == {"index", "delta", "logprobs", "finish_reason"}
    assert len(events) == 5
    assert all(set(event) == CHUNK for event in events[1:-1])
    assert set(events[-1]) == CHUNK | {"system_fingerprint"}
    assert all(set(choice["delta"]) == {"content"} for choice in choices[1:])
    assert set(choices[1]) == {"index", "delta", "logprobs", "finish_reason", "token_ids"}
    assert set(choices[-1]) == set(choices[1]) | {"stop_reason"}
    assert choices[-1]["finish_reason"] == "length"


def a_chat_stream_counts_from_nought(server: Server) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = server.events(CHAT, server.talked(stream_options=options, n=2, temperature=1))
    opening, rest = events[:2], events[2:-1]

    assert [event["choices"][0]["index"] for event in opening] == [0, 1]
    assert [event["usage"]["completion_tokens"] for event in opening] == [0, 0]
    assert all(set(e["usage"]) == USAGE | {"completion_tokens_details"} for e in opening + rest)
    assert events[-1]["choices"] == []
    assert set(events[-1]["usage"]) == USAGE
    assert events[-1]["usage"]["completion_tokens"] == 8


def unknown_models_are_not_found(server: Server) -> None:
    expected = (404, "NotFoundError", "model")

    assert server.refusal(COMPLETIONS, server.asked(model="nope")) == expected
    assert server.refusal(CHAT, server.talked(model="nope")) == expected


def bodies_that_are_no_object_are_bad(server: Server) -> None:
    assert server.refusal(COMPLETIONS, None, b"{bad") == (400, "Bad Request", "body.1")
    assert server.refusal(COMPLETIONS, []) == (400, "Bad Request", "body")
    assert server.refusal(COMPLETIONS, None, b"") == (400, "Bad Request", "body")


def fields_of_a_wrong_type_are_named(server: Server) -> None:
    wrong: dict[str, object] = {"max_tokens": "x", "n": "x", "temperature": "hot", "stream": "x"}
    wrong |= {"stop": 5, "model": 5, "ignore_eos": "x", "seed": "x", "prompt": {}}
    for name, value in wrong.items():
        expected = (400, "Bad Request", f"body.{name}")
        assert server.refusal(COMPLETIONS, server.asked(**{name: value})) == expected, name
    for at in ([-1], [1.5]):
        assert server.refusal(COMPLETIONS, server.asked(prompt=at))[2] == "body.prompt.0"
    for name, value in {"messages": "x", "stream_options": 5}.items():
        body = server.talked(**{name: value, "stream": True})
        assert server.refusal(CHAT, body) == (400, "Bad Request", f"body.{name}"), name


def messages_of_a_wrong_shape_are_bad(server: Server) -> None:
    for message in ({"content": "x"}, {"role": "user", "content": 5}):
        status, kind, param = server.refusal(CHAT, server.talked(messages=[message]))
        assert (status, kind) == (400, "Bad Request")
        assert param.startswith("body.messages.0.")


def values_out_of_range_are_refused(server: Server) -> None:
    over = server.max_model_len + 1
    wrong: list[tuple[dict[str, object], str | None]] = [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": over}, "max_tokens"),
        ({"n": 0}, None),
        ({"n": 2, "temperature": 0}, None),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 2}, "top_p"),
        ({"presence_penalty": 3}, None),
        ({"min_tokens": -1}, None),
        ({"min_tokens": 5}, None),
        ({"stop": ""}, None),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, None),
        ({"prompt": [[]]}, None),
        ({"prompt": [999_999]}, None),
        ({"suffix": "x"}, "suffix"),
        ({"prompt": [5] * (over - 1)}, "max_tokens"),
        ({"prompt": [5] * over}, "input_tokens"),
    ]
    for more, param in wrong:
        found = server.refusal(COMPLETIONS, server.asked(**more))
        assert found == (400, "BadRequestError", param), more
    talk: list[tuple[dict[str, object], str | None]] = [
        ({"messages": []}, None),
        ({"max_completion_tokens": 0}, "max_tokens"),
        ({"max_tokens": over}, "max_tokens"),
    ]
    for more, param in talk:
        assert server.refusal(CHAT, server.talked(**more)) == (400, "BadRequestError", param), more


def texts_longer_than_the_context_are_refused(server: Server) -> None:
    text = "a " * server.max_model_len
    found = server.refusal(COMPLETIONS, server.asked(prompt=text))

    assert found == (400, "BadRequestError", "input_tokens")


def the_openai_client_completes(server: Server) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        whole = client.completions.create(
            model=server.model, prompt=[5, 6, 7], max_tokens=4, temperature=0
        )
        chunks = list(
            client.completions.create(
                model=server.model, prompt=[5, 6, 7], max_tokens=4, temperature=0, stream=True
            )
        )

    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 3
    assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text


def the_openai_client_chats(server: Server) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": "hi"}],
            max_completion_tokens=4,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        chunks = list(stream)

    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4
    assert chunks[-2].choices[0].finish_reason == "length"


def the_openai_client_raises_its_own_errors(server: Server) -> None:
    wrong = {"nope": openai.NotFoundError, server.model: openai.BadRequestError}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        for model, kind in wrong.items():
            with pytest.raises(kind) as caught:
                client.completions.create(model=model, prompt="x", max_tokens=0)
            body = caught.value.body
            assert isinstance(body, dict)
            assert body["code"] == caught.value.status_code


def metrics_have_vllms_names_labels_and_buckets(server: Server) -> None:
    _, text = server.scrape("/metrics", "*/*")
    families = {one.name: one for one in text_string_to_metric_families(text)}

    for name, bounds in HISTOGRAMS.items():
        samples = families[f"vllm:{name}"].samples
        buckets = [one.labels for one in samples if one.name.endswith("_bucket")]
        assert [labels["le"] for labels in buckets] == bounds.split(), name
        assert all(labels["model_name"] == server.model for labels in buckets)
        assert all(labels["engine"] == "0" for labels in buckets)
        assert f"vllm:{name}_created" in text
    for name in COUNTERS:
        assert f"# TYPE vllm:{name}_total counter" in text
    for name in GAUGES:
        assert f"# TYPE vllm:{name} gauge" in text


def metrics_are_plain_text_whatever_a_scraper_accepts(server: Server) -> None:
    kind, text = server.scrape("/metrics", OPEN_METRICS)

    assert kind == "text/plain; version=1.0.0; charset=utf-8"
    assert "vllm:num_requests_running{" in text


def metrics_after_a_slash_lose_the_colon_for_a_scraper_without_utf8(server: Server) -> None:
    kind, escaped = server.scrape("/metrics/", OPEN_METRICS)
    utf8 = OPEN_METRICS.replace("1.0.0", "1.0.0;escaping=allow-utf-8")
    _, kept = server.scrape("/metrics/", utf8)

    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert "vllm_num_requests_running{" in escaped
    # the comments keep the colon, the samples do not
    assert "vllm:num_requests_running{" not in escaped
    assert "vllm:num_requests_running{" in kept


CASES: list[Callable[[Server], None]] = [
    models_lists_a_card_with_the_context,
    plain_endpoints_answer,
    a_completion_has_these_keys,
    a_completion_defaults_to_sixteen_tokens,
    greedy_answers_repeat,
    prompts_come_in_four_forms,
    n_counts_every_choice,
    max_tokens_is_cut_to_the_context,
    a_prompt_can_be_truncated,
    numbers_are_read_leniently,
    a_stop_string_ends_the_answer,
    a_stream_has_a_chunk_a_token,
    usage_comes_last_with_no_choices,
    continuous_usage_counts_up,
    continuous_usage_needs_include_usage,
    streams_of_several_choices_carry_their_index,
    a_chat_answer_has_these_keys,
    chat_takes_the_newer_limit_and_fills_the_context_without_one,
    chat_content_may_be_parts_or_absent,
    a_chat_stream_begins_with_the_role,
    a_chat_stream_counts_from_nought,
    unknown_models_are_not_found,
    bodies_that_are_no_object_are_bad,
    fields_of_a_wrong_type_are_named,
    messages_of_a_wrong_shape_are_bad,
    values_out_of_range_are_refused,
    texts_longer_than_the_context_are_refused,
    metrics_have_vllms_names_labels_and_buckets,
    metrics_are_plain_text_whatever_a_scraper_accepts,
    metrics_after_a_slash_lose_the_colon_for_a_scraper_without_utf8,
    the_openai_client_completes,
    the_openai_client_chats,
    the_openai_client_raises_its_own_errors,
]
