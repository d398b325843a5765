"""A fleet on the real node, with real containers and streams through the in-cluster gateway."""

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.cluster.stack import Stack, variant
from tests.cluster.streams import Streams

pytestmark = pytest.mark.cluster

CHILDREN = (
    "deployments,replicasets,pods,services,endpointslices,poddisruptionbudgets,networkpolicies"
)


async def until(stack: Stack, name: str, count: int, timeout: float = 90.0) -> None:
    await asyncio.to_thread(stack.await_serving, name, count, timeout)


async def most_held(stack: Stack, name: str) -> list[int]:
    """The most sequences that each replica has ever held, by its own account."""
    found = []
    async with aiohttp.ClientSession() as session:
        for pod in await asyncio.to_thread(stack.pods, name):
            url = f"http://{pod['status']['podIP']}:8000/emulator/state"
            async with session.get(url) as answer:
                found.append((await answer.json())["max_held"])
    return found


async def test_a_fleet_lives_and_ends_without_a_lost_request_or_an_orphan(fleets: Stack) -> None:
    name = "whole"
    fleets.apply(fleets.fleet(name))
    fleets.cluster.kubectl(
        "wait", "--for=condition=Ready", f"sf/{name}", "-n", fleets.models, "--timeout=60s"
    )

    async with Streams(fleets.url, f"model-{name}", workers=1) as streams:
        await asyncio.sleep(5)
        streams.set_workers(9)
        await until(fleets, name, 3)
        assert max(await most_held(fleets, name)) <= 4
        await streams.fewer(1)
        await until(fleets, name, 1, 180)
        tally = await streams.finish()

    assert tally.whole > 50
    assert tally.clean, tally
    fleets.cluster.kubectl("delete", "sf", name, "-n", fleets.models)
    selector = f"neuronfleet.dev/fleet={name}"
    fleets.cluster.wait_for(
        lambda: not fleets.cluster.get(CHILDREN, "-n", fleets.models, "-l", selector)["items"],
        "an end of all objects of the fleet",
        90,
    )
    async with aiohttp.ClientSession() as session:
        body = {"model": f"model-{name}", "prompt": "a", "max_tokens": 1}
        async with session.post(f"{fleets.url}/v1/completions", json=body) as answer:
            assert answer.status == 404


async def test_ten_scale_ins_under_load_break_no_stream(fleets: Stack) -> None:
    name = "ins"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)

    async with Streams(fleets.url, f"model-{name}", workers=4) as streams:
        for _ in range(10):
            await scale(fleets, name, 2)
            await until(fleets, name, 2)
            await scale(fleets, name, 1)
            await until(fleets, name, 1)
        tally = await streams.finish()

    assert tally.clean, tally
    assert tally.whole > 100


async def scale(stack: Stack, name: str, count: int) -> None:
    arguments = ("scale", f"sf/{name}", "-n", stack.models, f"--replicas={count}")
    await asyncio.to_thread(stack.cluster.kubectl, *arguments)


async def test_a_rolling_image_change_under_load_breaks_no_stream(fleets: Stack) -> None:
    name = "roll"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    old = set(fleets.serving(name))
    other = fleets.images["vllm-neuron-gen1"].reference

    async with Streams(fleets.url, f"model-{name}", workers=6) as streams:
        # The same image under its digest's name is another revision.
        change(fleets, name, image=f"{other}", env={"EMULATOR_TIME_SCALE": "10"})
        await asyncio.to_thread(
            fleets.cluster.wait_for,
            lambda: len(fleets.serving(name)) == 2 and not old & set(fleets.serving(name)),
            "the new revision alone",
            120,
        )
        await until(fleets, name, 2)
        tally = await streams.finish()

    assert tally.clean, tally
    assert "rollout" not in fleets.status(name)


def change(stack: Stack, name: str, **more: Any) -> None:
    """Change the variant of a fleet."""
    fleet = stack.fleet(name, scaling=None, replicas=2, variants=[variant(**more)])
    stack.apply(fleet)


async def test_a_revision_that_cannot_serve_is_rolled_back_and_its_reason_told(
    fleets: Stack,
) -> None:
    name = "bad"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    old = set(fleets.serving(name))

    async with Streams(fleets.url, f"model-{name}", workers=6) as streams:
        change(fleets, name, env={"EMULATOR_TIME_SCALE": "10", "EMULATOR_FAULTS": "dead-engine"})
        found = await asyncio.to_thread(
            fleets.await_condition, name, "Degraded", "True", "RolledBack", 120.0
        )
        await until(fleets, name, 2)
        tally = await streams.finish()

    assert tally.clean, tally
    assert set(fleets.serving(name)) == old
    assert "was rolled back" in found["message"]
    assert "RolledBack" in fleets.events(name)
