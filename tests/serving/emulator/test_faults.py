import asyncio
import json

import aiohttp
import pytest

from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.emulator.serve import BootSettings
from neuronfleet.serving.emulator.tokens import expected_text
from tests.serving.emulator.helpers import Call, Start


async def test_a_dead_engine_answers_with_nothing(start: Start, call: Call) -> None:
    client = call(await start(faults=(Fault.DEAD_ENGINE,)))
    reply = await client.complete()
    before = await client.metric("vllm:generation_tokens_total")

    assert (await client.get("/health"))[0] == 200
    assert reply["choices"][0]["text"] == ""
    assert reply["usage"]["completion_tokens"] == 0
    assert await client.stream() == []
    assert before == await client.metric("vllm:generation_tokens_total") == 0


async def test_a_dead_engine_is_healed(start: Start, call: Call) -> None:
    client = call(await start(faults=(Fault.DEAD_ENGINE,)))
    assert await client.turn("dead-engine", on=False) == 200

    assert (await client.complete())["usage"]["completion_tokens"] == 4


async def test_wrong_text_is_healthy_and_wrong(start: Start, call: Call) -> None:
    client = call(await start())
    await client.turn("wrong-text", on=True)
    wrong = (await client.complete())["choices"][0]["text"]
    await client.turn("wrong-text", on=False)
    right = (await client.complete())["choices"][0]["text"]

    assert (await client.get("/health"))[0] == 200
    assert wrong != right == expected_text("one two", 4)
    assert len(wrong) == len(right)
    assert await client.metric("vllm:generation_tokens_total") == 8


async def test_a_crash_cuts_streams_and_closes_the_port(start: Start, call: Call) -> None:
    replica = await start(time_scale=20.0)
    client = call(replica)
    streams = [await client.begin(max_tokens=2000) for _ in range(3)]
    await streams[0].content.readline()
    await client.turn("crash", on=True)

    for stream in streams:
        with pytest.raises(aiohttp.ClientError):
            await stream.read()
    await asyncio.sleep(0.02)
    with pytest.raises(aiohttp.ClientConnectorError):
        await client.get("/health")
    state = json.loads((await client.get("/emulator/state", state=True))[1])
    assert state["phase"] == "crashed"


async def test_a_healed_crash_boots_anew_on_the_same_port(start: Start, call: Call) -> None:
    replica = await start(boot=BootSettings(weights_seconds=5))
    client = call(replica)
    port = replica.port
    await client.turn("crash", on=True)
    with pytest.raises(aiohttp.ClientError):
        await client.complete(max_tokens=500)
    await client.turn("crash", on=False)
    await asyncio.sleep(0.005)
    await replica.ready()

    assert replica.port == port
    assert (await client.complete())["usage"]["completion_tokens"] == 4
    # a new process: its counters begin at nought
    assert await client.metric("vllm:generation_tokens_total") == 4


async def test_a_crash_waits_for_a_stream_under_way(start: Start, call: Call) -> None:
    client = call(await start(faults=(Fault.CRASH,)))

    assert (await client.get("/health"))[0] == 200
    assert (await client.complete(max_tokens=1))["usage"]["completion_tokens"] == 1


async def test_a_hang_accepts_and_never_answers_until_it_is_healed(
    start: Start, call: Call
) -> None:
    replica = await start(time_scale=20.0)
    client = call(replica)
    running = asyncio.ensure_future(client.complete(max_tokens=100))
    await asyncio.sleep(0.05)
    await client.turn("hang", on=True)
    asked = asyncio.ensure_future(client.get("/health"))
    produced = replica.state()["tokens"]
    await asyncio.sleep(0.1)

    assert not asked.done()
    assert not running.done()
    assert replica.state()["tokens"] == produced
    await client.turn("hang", on=False)
    assert (await asked)[0] == 200
    assert (await running)["usage"]["completion_tokens"] == 100
    # time stood still, so nothing is late
    assert replica.core.lateness.max_ms < 90


async def test_a_replica_may_hang_from_its_boot_on(start: Start, call: Call) -> None:
    client = call(await start(faults=(Fault.HANG,)))
    asked = asyncio.ensure_future(client.complete())
    await asyncio.sleep(0.03)

    assert not asked.done()
    await client.turn("hang", on=False)
    assert (await asked)["usage"]["completion_tokens"] == 4


async def test_a_slow_boot_takes_a_factor_longer(start: Start) -> None:
    boot = BootSettings(weights_seconds=10, warm_up_seconds=2)
    replica = await start(boot=boot, faults=(Fault.SLOW_BOOT,), slow_boot_factor=2.5)

    assert [one["seconds"] for one in replica.state()["boot"]] == [0, 0, 25, 0, 5]


async def test_a_graph_miss_replaces_the_hit(start: Start) -> None:
    boot = BootSettings(graphs_hit_seconds=1, graphs_miss_seconds=20)
    replica = await start(boot=boot, faults=(Fault.GRAPH_MISS,))

    assert replica.state()["boot"][3] == {"phase": "graphs", "seconds": 20, "hit": False}


async def test_a_fault_turned_on_in_the_boot_changes_the_phases_ahead(
    start: Start, call: Call
) -> None:
    boot = BootSettings(node_seconds=30, graphs_hit_seconds=1, graphs_miss_seconds=20)
    replica = await start(wait=False, boot=boot)
    await call(replica).turn("graph-miss", on=True)
    await replica.ready()

    assert [one["seconds"] for one in replica.state()["boot"]] == [30, 0, 0, 20, 0]


async def test_an_unknown_fault_is_refused(start: Start, call: Call) -> None:
    assert await call(await start()).turn("on-fire", on=True) == 400
