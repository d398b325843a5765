"""What is away, dead or stale: decided by the laws, told by a condition and an event."""

import asyncio
import json
import time

import aiohttp
import pytest

from tests.cluster import faults
from tests.cluster.stack import Stack
from tests.cluster.streams import Streams
from tests.cluster.test_fleet import until

pytestmark = pytest.mark.cluster


def end(stack: Stack, name: str) -> None:
    stack.cluster.kubectl("delete", "sf", name, "-n", stack.fleets, "--wait=false")


async def test_a_minute_without_the_api_server_breaks_no_stream(stack: Stack) -> None:
    if why := stack.cluster.lacks("local"):
        pytest.skip(why)
    name = "deaf"
    stack.apply(stack.fleet(name, scaling=None, replicas=2))
    await until(stack, name, 2)
    url = stack.url

    async with Streams(url, f"model-{name}", workers=6) as streams:
        await asyncio.sleep(3)
        with faults.apiserver_down(stack.cluster.machine):
            await asyncio.sleep(60)
            before = streams.tally.whole
        await until(stack, name, 2)
        stack.cluster.kubectl("scale", f"sf/{name}", "-n", stack.fleets, "--replicas=3")
        await until(stack, name, 3)
        tally = await streams.finish()

    assert tally.clean, tally
    assert before > 50, "served throughout"
    end(stack, name)


async def test_while_prometheus_is_away_a_fleet_grows_and_never_shrinks(stack: Stack) -> None:
    name = "blind"
    stack.apply(stack.fleet(name))
    await until(stack, name, 1)
    await asyncio.to_thread(stack.await_condition, name, "MetricsAvailable", "True", "Found")

    async with Streams(stack.url, f"model-{name}", workers=1) as streams:
        stack.prometheus.stop()
        try:
            await asyncio.to_thread(
                stack.await_condition, name, "MetricsAvailable", "False", "SourceError"
            )
            streams.set_workers(9)
            await until(stack, name, 3)
            await streams.fewer(1)
            await asyncio.sleep(30)
            held = stack.status(name)
        finally:
            stack.prometheus.start()
        await asyncio.to_thread(stack.await_condition, name, "MetricsAvailable", "True", "Found")
        tally = await streams.finish()

    assert tally.clean, tally
    assert held["desired"] == 3
    assert held["reason"] == "MetricsUnknown"
    assert {"SourceError", "Found"} <= set(stack.events(name))
    end(stack, name)


async def test_a_killed_container_costs_its_streams_and_serves_again(stack: Stack) -> None:
    name = "dead"
    stack.apply(stack.fleet(name, scaling=None, replicas=2))
    await until(stack, name, 2)
    victim = stack.serving(name)[0]

    async with Streams(stack.url, f"model-{name}", workers=4) as streams:
        await asyncio.sleep(2)
        await asyncio.to_thread(faults.kill_container, stack.cluster, stack.fleets, victim)
        await asyncio.to_thread(stack.await_condition, name, "Progressing", "True", None, 30.0)
        await until(stack, name, 2)
        tally = await streams.finish()

    assert len(tally.broken) <= 4, "only what it held"
    assert tally.last_whole_s > time.monotonic() - 10
    end(stack, name)


async def test_an_engine_that_answers_nothing_is_replaced(stack: Stack) -> None:
    name = "numb"
    stack.apply(stack.fleet(name, scaling=None, replicas=2))
    await until(stack, name, 2)
    victim = stack.pods(name)[0]

    async with aiohttp.ClientSession() as session:
        url = f"http://{victim['status']['podIP']}:8000/emulator/faults"
        await session.post(url, json={"mode": "dead-engine", "on": True})
    gone = victim["metadata"]["name"]
    await asyncio.to_thread(
        stack.cluster.wait_for,
        lambda: gone not in [pod["metadata"]["name"] for pod in stack.pods(name)],
        "the end of a replica whose health endpoint says that it is well",
        90,
    )
    await until(stack, name, 2)

    assert "ReplacingReplicas" in stack.events(name)
    end(stack, name)


async def test_an_eviction_is_drained_and_replaced(stack: Stack) -> None:
    name = "evict"
    stack.apply(stack.fleet(name, scaling=None, replicas=2))
    await until(stack, name, 2)
    victim = stack.serving(name)[0]

    async with Streams(stack.url, f"model-{name}", workers=4) as streams:
        await asyncio.sleep(2)
        path = f"/api/v1/namespaces/{stack.fleets}/pods/{victim}/eviction"
        eviction = json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
        )
        await asyncio.to_thread(
            stack.cluster.kubectl, "create", "--raw", path, "-f", "-", input=eviction
        )
        await asyncio.to_thread(
            stack.cluster.wait_for,
            lambda: victim not in [pod["metadata"]["name"] for pod in stack.pods(name)],
            "the evicted pod's end",
            90,
        )
        await until(stack, name, 2)
        tally = await streams.finish()

    assert tally.clean, tally
    end(stack, name)


async def test_a_kubelet_that_stops_is_told_and_nothing_is_deleted(stack: Stack) -> None:
    if why := stack.cluster.lacks("local"):
        pytest.skip(why)
    name = "still"
    stack.apply(stack.fleet(name, scaling=None, replicas=1))
    await until(stack, name, 1)
    before = stack.serving(name)

    faults.stop_kubelet(stack.cluster.machine)
    try:
        found = await asyncio.to_thread(
            stack.await_condition, name, "Degraded", "True", "NodeNotReady", 120.0
        )
    finally:
        faults.start_kubelet(stack.cluster.machine)
    await until(stack, name, 1, 120)

    assert "real-0" in found["message"]
    assert stack.serving(name) == before
    assert "NodeNotReady" in stack.events(name)
    end(stack, name)


async def test_the_other_controller_takes_over(stack: Stack) -> None:
    name = "lead"
    stack.apply(stack.fleet(name, scaling=None, replicas=1))
    await until(stack, name, 1)

    def holder() -> str:
        lease = stack.cluster.get("lease", "-n", stack.namespace, "neuronfleet-controller")
        return str(lease["spec"].get("holderIdentity", ""))

    before = holder()
    stack.cluster.kubectl("delete", "pod", "-n", stack.namespace, before, "--wait=false")
    began = time.monotonic()
    await asyncio.to_thread(
        stack.cluster.wait_for, lambda: holder() not in ("", before), "another leader", 30
    )
    print(f"another controller leads {time.monotonic() - began:.1f} s after")
    stack.cluster.kubectl("scale", f"sf/{name}", "-n", stack.fleets, "--replicas=2")
    await until(stack, name, 2)
    end(stack, name)
