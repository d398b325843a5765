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


async def test_a_minute_without_the_api_server_breaks_no_stream(fleets: Stack) -> None:
    if why := fleets.cluster.lacks("local"):
        pytest.skip(why)
    name = "deaf"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    url = fleets.url

    async with Streams(url, f"model-{name}", workers=6) as streams:
        await asyncio.sleep(3)
        with faults.apiserver_down(fleets.cluster.machine):
            await asyncio.sleep(60)
            before = streams.tally.whole
        await until(fleets, name, 2)
        fleets.cluster.kubectl("scale", f"sf/{name}", "-n", fleets.models, "--replicas=3")
        await until(fleets, name, 3)
        tally = await streams.finish()

    assert tally.clean, tally
    assert before > 50, "served throughout"


async def test_while_prometheus_is_away_a_fleet_grows_and_never_shrinks(fleets: Stack) -> None:
    name = "blind"
    fleets.apply(fleets.fleet(name))
    await until(fleets, name, 1)
    await asyncio.to_thread(fleets.await_condition, name, "MetricsAvailable", "True", "Found")

    async with Streams(fleets.url, f"model-{name}", workers=1) as streams:
        fleets.prometheus.stop()
        try:
            await asyncio.to_thread(
                fleets.await_condition, name, "MetricsAvailable", "False", "SourceError"
            )
            streams.set_workers(9)
            await until(fleets, name, 3)
            await streams.fewer(1)
            await asyncio.sleep(30)
            held = fleets.status(name)
        finally:
            fleets.prometheus.start()
        await asyncio.to_thread(fleets.await_condition, name, "MetricsAvailable", "True", "Found")
        tally = await streams.finish()

    assert tally.clean, tally
    assert held["desired"] == 3
    assert held["reason"] == "MetricsUnknown"
    assert {"SourceError", "Found"} <= set(fleets.events(name))


async def test_a_killed_container_costs_its_streams_and_serves_again(fleets: Stack) -> None:
    name = "dead"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    victim = fleets.serving(name)[0]

    async with Streams(fleets.url, f"model-{name}", workers=4) as streams:
        await asyncio.sleep(2)
        await asyncio.to_thread(faults.kill_container, fleets.cluster, fleets.models, victim)
        await asyncio.to_thread(fleets.await_condition, name, "Progressing", "True", None, 30.0)
        await until(fleets, name, 2)
        tally = await streams.finish()

    assert len(tally.broken) <= 4, "only what it held"
    assert tally.last_whole_s > time.monotonic() - 10


async def test_an_engine_that_answers_nothing_is_replaced(fleets: Stack) -> None:
    name = "numb"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    victim = fleets.pods(name)[0]

    async with aiohttp.ClientSession() as session:
        url = f"http://{victim['status']['podIP']}:8000/emulator/faults"
        await session.post(url, json={"mode": "dead-engine", "on": True})
    gone = victim["metadata"]["name"]
    await asyncio.to_thread(
        fleets.cluster.wait_for,
        lambda: gone not in [pod["metadata"]["name"] for pod in fleets.pods(name)],
        "the end of a replica whose health endpoint says that it is well",
        90,
    )
    await until(fleets, name, 2)

    assert "ReplacingReplicas" in fleets.events(name)


async def test_an_eviction_is_drained_and_replaced(fleets: Stack) -> None:
    name = "evict"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    victim = fleets.serving(name)[0]

    async with Streams(fleets.url, f"model-{name}", workers=4) as streams:
        await asyncio.sleep(2)
        path = f"/api/v1/namespaces/{fleets.models}/pods/{victim}/eviction"
        eviction = json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
        )
        await asyncio.to_thread(
            fleets.cluster.kubectl, "create", "--raw", path, "-f", "-", input=eviction
        )
        await asyncio.to_thread(
            fleets.cluster.wait_for,
            lambda: victim not in [pod["metadata"]["name"] for pod in fleets.pods(name)],
            "the evicted pod's end",
            90,
        )
        await until(fleets, name, 2)
        tally = await streams.finish()

    assert tally.clean, tally


async def test_a_kubelet_that_stops_is_told_and_nothing_is_deleted(fleets: Stack) -> None:
    if why := fleets.cluster.lacks("local"):
        pytest.skip(why)
    name = "still"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=1))
    await until(fleets, name, 1)
    before = fleets.serving(name)

    faults.stop_kubelet(fleets.cluster.machine)
    try:
        found = await asyncio.to_thread(
            fleets.await_condition, name, "Degraded", "True", "NodeNotReady", 180.0
        )
    finally:
        faults.start_kubelet(fleets.cluster.machine)
    await until(fleets, name, 1, 120)

    assert "real-0" in found["message"]
    assert fleets.serving(name) == before
    assert "NodeNotReady" in fleets.events(name)


async def test_the_other_controller_takes_over(fleets: Stack) -> None:
    name = "lead"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=1))
    await until(fleets, name, 1)

    def holder() -> str:
        lease = fleets.cluster.get("lease", "-n", fleets.namespace, "neuronfleet-controller")
        return str(lease["spec"].get("holderIdentity", ""))

    before = holder()
    fleets.cluster.kubectl("delete", "pod", "-n", fleets.namespace, before, "--wait=false")
    began = time.monotonic()
    await asyncio.to_thread(
        fleets.cluster.wait_for, lambda: holder() not in ("", before), "another leader", 30
    )
    print(f"another controller leads {time.monotonic() - began:.1f} s after")
    fleets.cluster.kubectl("scale", f"sf/{name}", "-n", fleets.models, "--replicas=2")
    await until(fleets, name, 2)
