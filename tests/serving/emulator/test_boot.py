import asyncio
import json

import aiohttp
import pytest

from neuronfleet.serving.emulator.serve import BootSettings
from tests.serving.emulator.helpers import Call, Start

BOOT = BootSettings(
    node_seconds=20,
    image_seconds=10,
    weights_seconds=30,
    graphs_hit_seconds=20,
    graphs_miss_seconds=80,
    warm_up_seconds=5,
)


def events(log: list[str]) -> list[str]:
    return [json.loads(line)["event"] for line in log if line.startswith("{")]


async def test_the_api_port_is_unbound_until_the_boot_ends(start: Start, call: Call) -> None:
    probe = await start()
    port = probe.port
    await probe.stop()
    replica = await start(wait=False, boot=BOOT, port=port)

    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as session:
            await session.get(f"http://127.0.0.1:{port}/health")
    await replica.ready()
    assert replica.port == port
    assert (await call(replica).get("/health"))[0] == 200


async def test_the_state_port_tells_the_phase_from_the_start(start: Start, call: Call) -> None:
    replica = await start(wait=False, boot=BOOT, time_scale=200.0)
    client = call(replica)
    seen: list[str] = []
    while not seen or seen[-1] != "ready":
        phase = json.loads((await client.get("/emulator/state", state=True))[1])["phase"]
        health = (await client.get("/health", state=True))[0]
        assert health == (200 if phase == "ready" else 503) or phase == "warm-up"
        if not seen or seen[-1] != phase:
            seen.append(phase)
        await asyncio.sleep(0.002)

    assert seen == ["node", "image", "weights", "graphs", "warm-up", "ready"]


async def test_a_boot_takes_the_sum_of_its_phases(start: Start) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    replica = await start(boot=BOOT)

    # 20 + 10 + 30 + 20 + 5 = 85 s at 500 times
    assert 0.17 <= loop.time() - began < 0.6
    assert [one["seconds"] for one in replica.state()["boot"]] == [20, 10, 30, 20, 5]


async def test_a_hit_logs_no_compilation(start: Start) -> None:
    log: list[str] = []
    await start(boot=BOOT, log=log)
    text = "\n".join(log)

    assert events(log) == ["booting", "listening"]
    for anchor in (
        "Initializing a V1 LLM engine",
        "Loading checkpoint shards",
        "Finished weights loading in 30.00",
        "Using a cached neff",
        "Warmup completed",
        "Starting vLLM API server 0 on http://127.0.0.1:",
    ):
        assert anchor in text
    assert "Compilation" not in text


async def test_a_miss_takes_longer_and_names_the_field(start: Start) -> None:
    log: list[str] = []
    missed = BootSettings(
        graphs_hit_seconds=1, graphs_miss_seconds=40, graph_hit=False, missed_field="max_num_seqs"
    )
    replica = await start(boot=missed, log=log)
    text = "\n".join(log)

    assert "Unable to find precompiled artifacts: max_num_seqs differs" in text
    assert "Finished Compilation for all HLOs in 40.00 seconds" in text
    assert replica.state()["boot"][3] == {"phase": "graphs", "seconds": 40, "hit": False}


async def test_generation_1_logs_an_echo_of_its_settings(start: Start) -> None:
    log: list[str] = []
    await start(generation=1, slots=32, log=log)

    assert "INFO GPU KV cache size: 67,584 tokens" in log
    assert "INFO Maximum concurrency for 2,048 tokens per request: 33.00x" in log


async def test_generation_2_logs_what_memory_holds(start: Start) -> None:
    log: list[str] = []
    await start(generation=2, slots=32, kv_tokens=63 * 2048, log=log)

    assert "INFO Maximum concurrency for 2,048 tokens per request: 63.00x" in log


async def test_generation_2_exports_the_parts_of_its_boot(start: Start, call: Call) -> None:
    client = call(await start(boot=BOOT))

    assert await client.metric("vllm_neuron:startup_time_seconds") == 30 + 20 + 5
    assert await client.metric("vllm_neuron:model_load_time_seconds") == 30
    bucket = await client.metric("vllm_neuron:compilation_time_seconds", bucket_name="decode_s256")
    assert bucket == pytest.approx(20 / 8)


async def test_a_boot_can_be_given_up(start: Start) -> None:
    replica = await start(wait=False, boot=BootSettings(node_seconds=1e6))
    await replica.stop()

    assert replica.state()["phase"] == "stopped"
    assert replica.port is None
