"""A local fleet of real vLLM: grown and shrunk with no request lost, tokens counted twice alike."""

import asyncio
from dataclasses import replace

import aiohttp
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from neuronfleet.cli.load import FleetClient, byte_prompts
from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.local.run import LocalFleet
from neuronfleet.serving.local.vllm import VllmEngine
from neuronfleet.serving.planner.observation import Phase
from neuronfleet.serving.replica.replay import Arrival
from tests.local_fleet import local_run, running, serving_fleet, setup, until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

VARIANT = {
    "name": "cpu",
    "instanceType": "inf2.xlarge",
    "tensorParallelDegree": 2,
    "maxModelLen": 1024,
    "maxNumSeqs": 4,
}
STAGES = [
    {"at": "0s", "requestsPerSecond": 1.5},
    {"at": "70s", "requestsPerSecond": 0.1},
]


def serving(local: LocalFleet) -> int:
    return local.fleets[0].count(Phase.SERVING)


async def generated(local: LocalFleet) -> dict[str, float]:
    """Tokens made by each replica, by vLLM's own counters, warm-up and canaries included."""
    made = {}
    async with aiohttp.ClientSession() as session:
        for one in local.fleets[0].roster.replicas.values():
            async with session.get(f"{one.url}/metrics") as answer:
                families = text_string_to_metric_families(await answer.text())
                made[one.name] = sum(
                    sample.value
                    for family in families
                    for sample in family.samples
                    if sample.name == "vllm:generation_tokens_total"
                )
    return made


async def test_two_replicas_of_real_vllm_scale_and_lose_no_request() -> None:
    spec = serving_fleet(
        "tiny",
        variants=[VARIANT],
        traffic={"open": {"requestsPerSecond": 1}, "inputTokens": 200, "outputTokens": 120},
        scaling={"minReplicas": 1, "maxReplicas": 2},
        queue={"timeout": "10m"},
    )
    load = {"fleet": "tiny", "shape": "stages", "stages": STAGES}
    given = setup(
        spec,
        local_run(timeScale=1, canaryEvery="15s", traffic=[load]),
        engine=VllmEngine(print),
        client=lambda assignment: FleetClient(assignment, None, byte_prompts(1)),
    )
    async with running(given) as local:
        fleet = local.fleets[0]
        await until(lambda: serving(local) == 1, 240)
        await until(lambda: serving(local) == 2, 240)
        async with openai.AsyncOpenAI(base_url=local.endpoint, api_key="none") as client:
            stream = await client.chat.completions.create(
                model="model-tiny",
                messages=[{"role": "user", "content": "hello"}],
                max_tokens=8,
                stream=True,
                stream_options={"include_usage": True},
            )
            usages = [chunk.usage async for chunk in stream if chunk.usage]
        await until(lambda: len(fleet.roster.replicas) == 1, 300)
        # Streams that were under way as the second replica left have all ended by now.
        await asyncio.sleep(3)
        assert fleet.client is not None
        report = fleet.client.report()

    assert usages[-1].completion_tokens == 8
    assert fleet.failures == 0
    assert (report.refused, report.failed) == (0, 0)
    assert report.completed > 20
    assert any("left" in event.text for event in fleet.events)


async def test_tokens_by_the_client_s_usage_are_those_of_vllm_s_counters() -> None:
    spec = serving_fleet("tiny", variants=[VARIANT], replicas=1)
    del spec["spec"]["scaling"]
    # No canary falls into the count, and no traffic of the run's own.
    given = setup(spec, local_run(timeScale=1, canaryEvery="10h"), engine=VllmEngine(print))
    given = replace(given, run=replace(given.run, loads=()))
    async with running(given) as local:
        await until(lambda: serving(local) == 1, 240)
        before = sum((await generated(local)).values())
        client = LoadClient(
            local.endpoint,
            "model-tiny",
            (Arrival(at_ms=0.0, prompt_tokens=50, output_tokens=30 + n) for n in range(12)),
            objective=local.fleets[0].spec.objective,
            prompt_maker=byte_prompts(2),
        )
        summary = await client.run_closed(3)
        after = sum((await generated(local)).values())

    assert (summary.ok, summary.offered) == (12, 12)
    assert summary.output_tokens == sum(30 + n for n in range(12))
    assert after - before == summary.output_tokens
