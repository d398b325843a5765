import asyncio
import socket

import pytest

from neuronfleet.serving.emulator import streams
from neuronfleet.serving.emulator.tokens import expected_text
from tests.serving.emulator.helpers import Call, Start


async def test_streamed_text_is_the_expected_text(start: Start, call: Call) -> None:
    client = call(await start())
    events = await client.stream(prompt="one two", max_tokens=30)
    text = "".join(event["choices"][0]["text"] for event in events)

    assert text == expected_text("one two", 30)
    assert len(events) == 30


async def test_a_chunk_holds_as_many_tokens_as_the_interval_after_the_first(
    start: Start, call: Call
) -> None:
    client = call(await start(stream_interval=4))
    events = await client.stream(max_tokens=11, stream_options={"include_usage": True})
    words = [len(event["choices"][0]["text"].split()) for event in events[:-1]]

    assert words == [1, 4, 4, 2]
    assert events[-1]["usage"]["completion_tokens"] == 11


async def test_min_tokens_defers_a_stop_string(start: Start, call: Call) -> None:
    client = call(await start())
    stop = expected_text("one two", 1)
    early = await client.complete(max_tokens=2000, stop=stop)
    late = await client.complete(max_tokens=2000, stop=stop, min_tokens=5)

    assert early["usage"]["completion_tokens"] == 1
    assert early["choices"][0]["text"] == ""
    assert late["usage"]["completion_tokens"] > 5
    assert late["choices"][0]["finish_reason"] == "stop"


async def test_a_connection_serves_one_stream_after_another(start: Start, call: Call) -> None:
    client = call(await start())
    for _ in range(3):
        assert len(await client.stream(max_tokens=3)) == 3
        assert (await client.complete())["usage"]["completion_tokens"] == 4


async def test_a_client_that_does_not_read_is_dropped(
    start: Start, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BUFFER_LIMIT", 10_000)
    replica = await start(time_scale=5000.0, max_model_len=100_000)
    body = b'{"prompt": "x", "max_tokens": 90000, "stream": true}'
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", replica.port))
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        async with asyncio.timeout(20):
            while replica.core.totals.aborted == 0:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)

    assert replica.state()["held"] == 0


async def test_many_streams_come_complete(start: Start, call: Call) -> None:
    client = call(await start(slots=64, time_scale=200.0))
    work = [client.stream(prompt=f"client {number}", max_tokens=50) for number in range(100)]
    for number, events in enumerate(await asyncio.gather(*work)):
        text = "".join(event["choices"][0]["text"] for event in events)
        assert text == expected_text(f"client {number}", 50)
