import asyncio

import pytest

from neuronfleet.serving.emulator.serve import ReplicaSettings
from neuronfleet.serving.replica.machine import StepMachine
from neuronfleet.serving.replica.replay import closed_loop
from tests.serving.emulator.helpers import Call, Start


def milliseconds(settings: ReplicaSettings, prompt: int, output: int) -> float:
    """What one request alone takes in virtual time, the replica being cold."""
    machine = StepMachine(settings.timing, settings.slots)
    sequence = machine.submit("one", prompt, output, 0.0)
    while machine.next_ms() is not None:
        machine.finish()
    assert sequence.ended_ms is not None
    return sequence.ended_ms


async def test_metrics_give_the_durations_of_the_step_machine(
    start: Start, call: Call, settings: ReplicaSettings
) -> None:
    replica = await start()
    client = call(replica)
    await client.complete(prompt=[1] * 100, max_tokens=50)

    expected = milliseconds(settings, 100, 50) / 1000
    assert await client.metric("vllm:e2e_request_latency_seconds_sum") == pytest.approx(expected)
    first = await client.metric("vllm:time_to_first_token_seconds_sum")
    # 7 host + 54.5 bucket + 100 * 0.0345 + 628 for the first request after a boot
    assert first == pytest.approx(0.69295)


async def test_only_the_first_request_after_a_boot_is_slow(start: Start, call: Call) -> None:
    client = call(await start())
    await client.complete(prompt=[1] * 100)
    await client.complete(prompt=[1] * 100)

    both = await client.metric("vllm:time_to_first_token_seconds_sum")
    assert both == pytest.approx(0.69295 + 0.06495)


async def test_a_client_waits_as_long_as_the_scale_says(
    start: Start, call: Call, settings: ReplicaSettings
) -> None:
    client = call(await start(time_scale=10.0))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await client.complete(prompt=[1] * 100, max_tokens=20)

    # 693 ms to the first token and 19 steps of 42 ms, ten times as fast: 149 ms
    assert milliseconds(settings, 100, 20) == pytest.approx(1490.95)
    assert 0.149 <= loop.time() - began < 0.4


async def test_a_batch_takes_what_the_replay_predicts(
    start: Start, call: Call, settings: ReplicaSettings
) -> None:
    client = call(await start(time_scale=20.0))
    await client.complete(prompt=[1], max_tokens=1)
    work = [client.complete(prompt=[1] * 500, max_tokens=40) for _ in range(6)]
    replies = await asyncio.gather(*work)

    replayed = closed_loop(
        settings.timing,
        slots=8,
        workers=6,
        requests=6,
        prompt_tokens=500,
        output_tokens=40,
        first_after_boot=False,
    )
    expected = sum(one.ended_ms for one in replayed) / 1000
    total = await client.metric("vllm:e2e_request_latency_seconds_sum")
    assert all(reply["usage"]["completion_tokens"] == 40 for reply in replies)
    assert total is not None
    assert total - 0.69 == pytest.approx(expected, rel=0.1)


async def test_what_finds_no_slot_waits_in_the_replicas_own_queue(start: Start, call: Call) -> None:
    replica = await start(slots=2, time_scale=20.0)
    client = call(replica)
    work = asyncio.gather(*(client.complete(max_tokens=40) for _ in range(5)))
    await asyncio.sleep(0.06)
    state = replica.state()
    await work

    assert (state["running"], state["waiting"], state["held"]) == (2, 3, 5)
    assert replica.state()["held"] == 0
    assert replica.state()["max_held"] == 5


async def test_memory_binds_below_max_num_seqs(start: Start, call: Call) -> None:
    replica = await start(kv_tokens=3 * 2048, time_scale=20.0)
    client = call(replica)
    work = asyncio.gather(*(client.complete(max_tokens=40) for _ in range(5)))
    await asyncio.sleep(0.06)
    state = replica.state()
    await work

    assert (state["slots"], state["running"], state["waiting"]) == (3, 3, 2)


async def test_each_of_n_sequences_takes_a_slot(start: Start, call: Call) -> None:
    replica = await start(time_scale=20.0)
    client = call(replica)
    work = asyncio.ensure_future(client.complete(n=5, temperature=1, max_tokens=40))
    await asyncio.sleep(0.06)
    held = replica.state()["running"]
    reply = await work

    assert held == 5
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3, 4]


async def test_a_client_that_leaves_frees_its_slot(start: Start, call: Call) -> None:
    replica = await start(time_scale=5.0)
    client = call(replica)
    stream = await client.begin(max_tokens=2000)
    await stream.content.readline()
    before = replica.state()["running"]
    stream.close()
    await asyncio.sleep(0.05)

    assert before == 1
    assert replica.state()["held"] == 0
    assert replica.core.totals.aborted == 1
    # vLLM counts no aborted request as a success
    assert await client.metric("vllm:request_success_total", finished_reason="abort") == 0


async def test_a_client_that_leaves_while_it_waits_is_forgotten(start: Start, call: Call) -> None:
    replica = await start(slots=1, time_scale=5.0)
    client = call(replica)
    first = await client.begin(max_tokens=2000)
    second = await client.begin(max_tokens=2000)
    await first.content.readline()
    waiting = replica.state()["waiting"]
    second.close()
    await asyncio.sleep(0.05)

    assert waiting == 1
    assert replica.state()["held"] == 1
    first.close()


async def test_late_work_voids_a_run_and_a_new_window_forgets_it(start: Start, call: Call) -> None:
    replica = await start(time_scale=500.0, void_above_ms=0.001)
    client = call(replica)
    await client.complete(max_tokens=300)
    state = replica.state()

    assert state["void"] is True
    assert "must be in [0, 0.001]" in str(state["void_reason"])
    assert state["lateness"]["p50_ms"] <= state["lateness"]["p99_ms"] <= state["lateness"]["max_ms"]
    assert await client.metric("neuronfleet_emulator_void") == 1
    await client.reset()
    assert replica.state()["void"] is False


async def test_work_of_an_idle_host_is_in_time(start: Start, call: Call) -> None:
    replica = await start(time_scale=1.0, void_above_ms=150.0)
    client = call(replica)
    await asyncio.gather(*(client.complete(max_tokens=6) for _ in range(4)))

    assert replica.core.lateness.samples >= 9
    assert replica.state()["void"] is False


async def test_an_engine_behind_its_time_still_answers(start: Start, call: Call) -> None:
    # A step is 0.05 us of real time here: far more work is due than any host can do.
    replica = await start(time_scale=1e6)
    client = call(replica)
    work = asyncio.gather(*(client.complete(max_tokens=1500) for _ in range(8)))
    await asyncio.sleep(0)
    status, _ = await client.get("/health")
    replies = await work

    assert status == 200
    assert all(reply["usage"]["completion_tokens"] == 1500 for reply in replies)
