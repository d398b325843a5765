from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING

import openai
import pytest
from aiohttp import web

if TYPE_CHECKING:
    from tests.serving.gateway.conftest import Answer, Rig

    StartRig = Callable[..., Awaitable[Rig]]

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_the_body_s_model_chooses_the_fleet(rig: StartRig, path: str) -> None:
    gateway = await rig()
    await gateway.add("llama", "a", 4)
    await gateway.add("qwen", "b", 4)

    for model, replica in (("m1", "a"), ("meta/llama-3", "a"), ("m2", "b")):
        answer = await gateway.ask({"messages": [{"model": "m2"}], "model": model}, path=path)
        assert f"data: {replica} 0" in answer.text


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"model": "x"}', "x"),
        (b'{"model": "a\\"b\\\\c`d\\n\\u001f"}', 'a"b\\c`d\n\x1f'),
        ('{"model": "模型 é"}'.encode(), "模型 é"),
        (b'{"model": "m1 "}', "m1 "),
        (b'{"model": "%[src]"}', "%[src]"),
        (b'{"model": "' + b"x" * 3000 + b'"}', "x" * 256),
        (('{"model": "' + "é" * 300 + '"}').encode(), "é" * 128),
    ],
)
async def test_an_unknown_model_is_404_in_openai_s_shape(
    rig: StartRig, body: bytes, shown: str
) -> None:
    answer = await (await rig()).ask(data=body)

    assert answer.status == 404
    assert answer.json == {
        "error": {
            "message": f"The model `{shown}` does not exist.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[]", b"{}", b'{"model": null}', b'{"model": ""}', b'{"model": ["m1"]}',
     b'{"model": {"a": 1}}', b'{"model": "m1', b'{"x": {"model": "m1"}}'],
)  # fmt: skip
async def test_a_body_without_a_model_is_400_in_openai_s_shape(rig: StartRig, body: bytes) -> None:
    answer = await (await rig()).ask(data=body)

    assert answer.status == 400
    assert answer.json["error"]["type"] == "BadRequestError"
    assert answer.json["error"]["param"] == "model"


async def test_all_models_are_listed_as_openai_lists_them(rig: StartRig) -> None:
    answer = await (await rig(models_created=7)).ask(method="GET", path="/v1/models")

    assert answer.status == 200
    assert answer.json["object"] == "list"
    assert [model["id"] for model in answer.json["data"]] == ["m1", "meta/llama-3", "m2"]
    assert answer.json["data"][0] == {
        "id": "m1",
        "object": "model",
        "created": 7,
        "owned_by": "neuronfleet",
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/metrics", 404),
        ("POST", "/v1/completions/", 404),
        ("POST", "/v1/models", 404),
        ("GET", "/v1/completions", 405),
    ],
)
async def test_only_the_gateway_s_paths_are_there(
    rig: StartRig, method: str, path: str, status: int
) -> None:
    answer = await (await rig()).ask(method=method, path=path)

    assert answer.status == status
    if status != 200:
        assert answer.json["error"]["code"] == status


async def test_the_queue_deadline_refuses_with_the_expected_wait(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("qwen", "r1", 1)
    await gateway.process.runtime.set_wait("qwen", 6.2)
    busy = asyncio.create_task(gateway.ask({"model": "m2", "events": 50}))
    await asyncio.sleep(0.1)
    begin = asyncio.get_running_loop().time()

    answer = await gateway.ask({"model": "m2"})

    assert 0.25 < asyncio.get_running_loop().time() - begin < 0.6
    assert (answer.status, answer.headers["retry-after"]) == (503, "7")
    assert answer.json["error"]["type"] == "ServiceUnavailableError"
    assert (await gateway.process.runtime.stats())["qwen"].refused == 1
    await busy


@pytest.mark.parametrize("replicas", ["none", "draining", "down"])
async def test_a_fleet_that_can_serve_nobody_refuses_at_once_and_is_counted(
    rig: StartRig, replicas: str
) -> None:
    gateway = await rig(check_seconds=0.05)
    runtime = gateway.process.runtime
    if replicas != "none":
        replica = await gateway.add("llama", "r1", 1)
        replica.healthy = replicas != "down"
        await (runtime.drain_replica("llama", "r1") if replica.healthy else asyncio.sleep(0.5))
    await runtime.set_wait("llama", 0.0)

    answers = [await gateway.ask() for _ in range(3)]

    assert [(a.status, a.headers["retry-after"]) for a in answers] == [(503, "1")] * 3
    fleet = (await runtime.stats())["llama"]
    assert (fleet.refused, fleet.requests, fleet.queued) == (3, 3, 0)


@pytest.mark.parametrize(("own", "seen"), [({"Retry-After": "99"}, "99"), ({}, "1")])
async def test_a_replica_s_503_keeps_its_own_retry_after_and_is_no_refusal(
    rig: StartRig, own: dict[str, str], seen: str
) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    replica.answer = lambda: web.Response(status=503, headers=own, text="its own words")

    answer = await gateway.ask()

    assert (answer.status, answer.text) == (503, "its own words")
    assert answer.headers["retry-after"] == seen
    assert (await gateway.process.runtime.stats())["llama"].refused == 0


async def test_headers_of_the_canary_port_do_nothing_at_the_public_one(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 4)
    await gateway.process.runtime.drain_replica("llama", "r1")
    await gateway.add("llama", "r2", 4)
    named = {"x-neuronfleet-fleet": "llama", "x-neuronfleet-replica": "r1"}

    answer = await gateway.ask(headers=named)

    assert "data: r2 0" in answer.text
    assert replica.most == 0


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413_and_one_at_the_limit_passes(
    rig: StartRig, chunked: bool
) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 4)
    start, end = b'{"pad": "', b'", "model": "m1"}'

    async def in_chunks(whole: bytes) -> AsyncIterator[bytes]:
        for i in range(0, len(whole), 1000):
            yield whole[i : i + 1000]

    async def ask(size: int) -> Answer:
        whole = start + b"x" * (size - len(start) - len(end)) + end
        return await gateway.ask(data=in_chunks(whole) if chunked else whole)

    at_limit, over = await ask(65536), await ask(65537)

    assert at_limit.status == 200
    assert over.status == 413
    assert over.json["error"]["type"] == "RequestTooLargeError"


async def test_headers_over_the_limits_are_refused(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 4)

    assert (await gateway.ask(headers={"x": "y" * 8000, "z": "y" * 8000})).status == 200
    assert (await gateway.ask(headers={"x": "y" * 9000, "z": "y" * 8000})).status == 431
    # HAProxy's parser answers this one, in words that cannot be set.
    assert (await gateway.ask(headers={f"x{i}": "y" for i in range(80)})).status == 400


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        # HAProxy's parser answers this one, in words that cannot be set.
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n", b"408 Request Time-out"),
        (
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
            b'"type": "RequestTimeoutError"',
        ),
    ],
)
async def test_a_client_that_dribbles_is_ended(rig: StartRig, sent: bytes, said: bytes) -> None:
    gateway = await rig(request_seconds=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port)
    writer.write(sent)

    async with asyncio.timeout(2):
        answer = await reader.read()

    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert said in answer


async def test_prometheus_reads_queue_and_sessions_from_a_port_of_its_own(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 4)

    metrics = await gateway.ask(method="GET", path="/metrics", port=gateway.settings.metrics_port)

    assert 'haproxy_backend_current_queue{proxy="llama"} 0' in metrics.text
    assert 'haproxy_server_current_sessions{proxy="llama",server="r1"} 0' in metrics.text
    # The refused, as `stats` reads them.
    assert 'haproxy_backend_connection_errors_total{proxy="llama"} 0' in metrics.text


async def test_the_openai_client_raises_its_own_errors(rig: StartRig) -> None:
    gateway = await rig(keys=f"{sha256(b'sk-good').hexdigest()} interactive\n")
    url = f"http://127.0.0.1:{gateway.settings.port}/v1"

    async with openai.AsyncOpenAI(base_url=url, api_key="sk-good", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["m1", "meta/llama-3", "m2"]
        with pytest.raises(openai.NotFoundError, match="The model `gpt` does not exist"):
            await client.completions.create(model="gpt", prompt="x")
        with pytest.raises(openai.InternalServerError, match="Retry-After"):
            await client.completions.create(model="m1", prompt="x")
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-bad", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError, match="API key"):
            await client.completions.create(model="m1", prompt="x")


async def test_the_openai_client_reads_a_stream(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    event = b'data: {"id":"1","object":"text_completion","created":1,"model":"m1","choices":[]}\n\n'
    replica.answer = lambda: web.Response(
        body=event * 3 + b"data: [DONE]\n\n", content_type="text/event-stream"
    )
    url = f"http://127.0.0.1:{gateway.settings.port}/v1"

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        stream = await client.completions.create(model="m1", prompt="x", stream=True)
        assert len([chunk async for chunk in stream]) == 3


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "m1", "n": 1}, 200),
        ({"model": "m1", "n": 2}, 400),
        ({"model": "m1", "best_of": 2}, 400),
        ({"model": "m1", "prompt": ["one", "two"]}, 400),
        ({"model": "m1", "prompt": [[1, 2], [3]]}, 400),
        ({"model": "m1", "prompt": ["one"]}, 200),
        ({"model": "m1", "prompt": [1, 2, 3]}, 200),
        ({"model": "m1", "prompt": 'a "prompt": ["text"'}, 200),
    ],
)
async def test_a_request_of_several_sequences_is_refused_since_it_counts_as_one(
    rig: StartRig, body: dict[str, object], status: int
) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 2)
    answer = await gateway.ask(body)

    assert answer.status == status
    if status == 400:
        assert "Each sequence takes a slot" in answer.json["error"]["message"]
