import asyncio
import itertools
import time

import pytest
from aiohttp import web

from neuronfleet.serving.bench.results import Result, Status
from tests.serving.bench.fakes import DONE, Server, answer, at, event, last_usage, stream


async def one(server: Server, **options: object) -> Result:
    client = server.client(at(0), **options)
    await client.run()
    (result,) = client.results
    return result


async def test_a_whole_stream_is_ok_with_the_servers_counts(server: Server) -> None:
    server.streams(answer([1, 2, 3]))

    result = await one(server)

    assert (result.status, result.http_status) == (Status.OK, 200)
    assert (result.prompt_tokens, result.tokens, result.first_tokens) == (7, 3, 1)
    assert result.error is None


async def test_the_request_asks_for_an_exact_length_counted_in_every_chunk(server: Server) -> None:
    server.streams(answer([1]))

    await one(server, headers={"Authorization": "Bearer key"})

    (body,) = server.bodies
    prompt = body.pop("prompt")
    assert len(prompt.split()) == 7  # and the tokenizer's BOS: 8
    assert body == {
        "model": "llama",
        "max_tokens": 5,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    assert server.headers[0]["Authorization"] == "Bearer key"


async def test_a_chat_leaves_room_for_the_templates_tokens(server: Server) -> None:
    opening = event(0, "", chat=True)
    server.streams([opening, event(1, chat=True), event(2, chat=True), last_usage(2), DONE])

    client = server.client(at(0, prompt_tokens=20), chat=True)
    await client.run()

    assert server.paths == ["/v1/chat/completions"]
    (message,) = server.bodies[0]["messages"]
    assert len(message["content"].split()) == 20 - 8
    assert (client.results[0].status, client.results[0].first_tokens) == (Status.OK, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_no_room_is_refused_and_says_when_to_come_again(server: Server, status: int) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Retry-After": "2"}, text="full")

    server.handler = refuse

    result = await one(server)

    assert (result.status, result.http_status) == (Status.REFUSED, status)
    assert (result.retry_after_s, result.error) == (2.0, "full")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, Status.REJECTED), (404, Status.REJECTED), (500, Status.FAILED), (504, Status.FAILED)],
)
async def test_other_errors_are_told_apart(server: Server, status: int, expected: Status) -> None:
    async def fail(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})

    server.handler = fail

    result = await one(server)

    assert (result.status, result.http_status, result.retry_after_s) == (expected, status, None)


async def test_a_200_without_a_token_is_empty_and_not_ok(server: Server) -> None:
    server.streams([last_usage(0), DONE])

    assert (await one(server)).status is Status.EMPTY


async def test_a_200_that_is_no_stream_is_empty(server: Server) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>")

    server.handler = page

    assert (await one(server)).status is Status.EMPTY


async def test_a_stream_without_its_end_mark_is_cut(server: Server) -> None:
    server.streams([event(1), event(2)])

    result = await one(server)

    assert (result.status, result.tokens) == (Status.CUT, 2)


async def test_a_connection_lost_within_the_stream_is_cut(server: Server) -> None:
    async def drop(request: web.Request) -> web.StreamResponse:
        response = await stream(request, [event(1)])
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    server.handler = drop

    result = await one(server)

    assert (result.status, result.tokens) == (Status.CUT, 1)
    assert result.error is not None


async def test_an_error_event_within_the_stream_is_cut(server: Server) -> None:
    server.streams([event(1), b'data: {"error":{"message":"engine died"}}\n\n', DONE])

    assert (await one(server)).status is Status.CUT


async def test_no_server_is_failed() -> None:
    client = Server(url="http://127.0.0.1:1/v1").client(at(0))

    await client.run()

    assert [(r.status, r.http_status) for r in client.results] == [(Status.FAILED, None)]


async def test_tpot_counts_the_tokens_and_not_the_chunks(server: Server) -> None:
    async def fours(request: web.Request) -> web.StreamResponse:
        response = await stream(request, [event(4)])
        for tokens in (8, 12, 16):
            await asyncio.sleep(0.1)
            await response.write(event(tokens))
        await response.write(last_usage(16) + DONE)
        return response

    server.handler = fours

    result = await one(server)

    assert (result.first_tokens, result.tokens) == (4, 16)
    assert result.tpot_s is not None
    assert 0.29 / 12 < result.tpot_s < 0.6 / 12  # over chunks it would be 0.3 / 3


async def test_a_busy_server_hides_nothing_as_latency_counts_from_the_schedule(
    server: Server,
) -> None:
    turn = asyncio.Lock()

    async def one_by_one(request: web.Request) -> web.StreamResponse:
        async with turn:
            await asyncio.sleep(0.1)
            return await stream(request, answer([1]))

    server.handler = one_by_one
    client = server.client(at(*(n * 0.02 for n in range(10))))

    await client.run()

    by_number = sorted(client.results, key=lambda result: result.number)
    ttft = [result.ttft_s for result in by_number if result.ttft_s is not None]
    # All were sent in time, and the last waited for the nine before it: 10 * 100 - 180 ms.
    assert max(result.dispatch_lag_s for result in client.results) < 0.3
    assert 0.1 <= ttft[0] < 0.4
    assert ttft[-1] >= 0.8


async def test_a_client_that_fell_behind_counts_its_own_delay_and_voids_the_run(
    server: Server,
) -> None:
    server.streams(answer([1]))

    def slow_prompt(tokens: int) -> str:
        time.sleep(0.05)
        return "word"

    client = server.client(at(*[0.0] * 10), prompt_maker=slow_prompt)

    summary = await client.run()

    last = max(client.results, key=lambda result: result.number)
    assert last.dispatch_lag_s > 0.4
    assert last.ttft_s is not None
    assert last.ttft_s >= last.dispatch_lag_s
    assert "requests left" in summary.void[0]


async def test_times_are_the_fleets(server: Server) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return await stream(request, answer([1]))

    server.handler = late
    client = server.client(at(0, 4), time_scale=20)
    begun = time.monotonic()

    await client.run()

    assert time.monotonic() - begun < 2  # 4 s of the fleet are 0.2 s, and 0.1 s for the answer
    assert [result.scheduled_s for result in client.results] == [0, 4]
    for result in client.results:
        assert result.ttft_s is not None
        assert 2 <= result.ttft_s < 8


async def test_what_runs_at_the_end_is_unfinished_and_nothing_else(server: Server) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        response = await stream(request, [event(1)])
        await asyncio.sleep(60)
        return response

    server.handler = hang
    client = server.client(at(0, 0.1, 5))

    summary = await client.run(0.3)

    assert (summary.unfinished, summary.offered, summary.attainment) == (2, 0, None)
    assert (summary.output_tokens, summary.unfinished_tokens) == (0, 2)
    assert summary.window_s == pytest.approx(0.3, abs=0.25)


async def test_draining_lets_what_runs_end(server: Server) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return await stream(request, answer([1]))

    server.handler = late

    summary = await server.client(at(0)).run(0.1, drain_s=5)

    assert (summary.ok, summary.unfinished) == (1, 0)


async def test_stop_breaks_off_two_hundred_streams_within_a_second(server: Server) -> None:
    begun = asyncio.Semaphore(0)

    async def hang(request: web.Request) -> web.StreamResponse:
        response = await stream(request, [event(1)])
        begun.release()
        await asyncio.sleep(60)
        return response

    server.handler = hang
    client = server.client(at(*[0.0] * 200, 3600))
    run = asyncio.create_task(client.run())
    for _ in range(200):
        await begun.acquire()

    asked = time.monotonic()
    await client.stop()

    assert time.monotonic() - asked < 1
    assert (await run).unfinished == 200
    assert client.under_way == 0


async def test_a_cancelled_run_leaves_nothing_behind(server: Server) -> None:
    begun = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        begun.set()
        await asyncio.sleep(60)
        return web.Response()

    server.handler = hang
    client = server.client(at(0, 3600))
    run = asyncio.create_task(client.run())
    await begun.wait()

    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    assert client.under_way == 0
    assert [result.status for result in client.results] == [Status.UNFINISHED]


async def test_results_are_told_as_they_come(server: Server) -> None:
    server.streams(answer([1]))
    told: list[int] = []

    await server.client(at(0, 0.01), on_result=lambda r: told.append(r.number)).run()

    assert sorted(told) == [0, 1]


async def test_a_listener_that_raises_ends_the_run_with_its_error(server: Server) -> None:
    server.streams(answer([1]))

    def burst(result: Result) -> None:
        raise KeyError("listener")

    with pytest.raises(KeyError, match="listener"):
        await server.client(at(0, 3600), on_result=burst).run()


async def test_arrivals_that_raise_end_the_run_with_their_error(server: Server) -> None:
    server.streams(answer([1]))
    broken = (at(1 // 0)[0] for _ in range(1))

    with pytest.raises(ZeroDivisionError):
        await server.client(broken).run()


async def test_a_closed_loop_holds_its_concurrency_and_its_count(server: Server) -> None:
    busy = most = 0

    async def watch(request: web.Request) -> web.StreamResponse:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.02)
        busy -= 1
        return await stream(request, answer([1]))

    server.handler = watch
    client = server.client(itertools.chain.from_iterable(itertools.repeat(at(0))))

    summary = await client.run_closed(4, requests=20)

    assert (most, summary.ok, len(server.bodies)) == (4, 20, 20)


async def test_a_closed_loop_ends_in_time(server: Server) -> None:
    server.streams(answer([1]))
    client = server.client(itertools.chain.from_iterable(itertools.repeat(at(0))))
    begun = time.monotonic()

    summary = await client.run_closed(2, until_s=0.3)

    assert time.monotonic() - begun < 1
    assert summary.ok > 2


async def test_a_refused_worker_waits_as_told(server: Server) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": "1"})

    server.handler = refuse
    client = server.client(itertools.chain.from_iterable(itertools.repeat(at(0))))

    assert (await client.run_closed(1, until_s=0.3)).refused == 1


async def test_a_client_runs_once(server: Server) -> None:
    server.streams(answer([1]))
    client = server.client(at(0))
    await client.run()

    with pytest.raises(RuntimeError, match="runs once"):
        await client.run()


async def test_no_two_prompts_are_alike_and_a_seed_repeats_them(server: Server) -> None:
    server.streams(answer([1]))
    for _ in range(2):
        await server.client(at(*(n * 0.01 for n in range(5))), seed=3).run()

    prompts = [body["prompt"] for body in server.bodies]

    assert len(set(prompts[:5])) == 5
    assert sorted(prompts[:5]) == sorted(prompts[5:])
