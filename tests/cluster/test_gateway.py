"""Two gateway pods, one active: handed over without a broken stream, taken over within seconds."""

import asyncio
import time

import aiohttp
import pytest

from tests.cluster import faults
from tests.cluster.stack import RELEASE, Stack
from tests.cluster.streams import Streams
from tests.cluster.test_fleet import most_held, until

pytestmark = pytest.mark.cluster


def active(stack: Stack) -> str:
    """The gateway pod that holds the Lease."""
    lease = stack.cluster.get("lease", "-n", stack.namespace, f"{RELEASE}-gateway")
    return str(lease["spec"].get("holderIdentity") or "")


def gateways(stack: Stack) -> list[dict[str, object]]:
    selector = "app.kubernetes.io/component=gateway"
    items: list[dict[str, object]] = stack.cluster.get(
        "pods", "-n", stack.namespace, "-l", selector
    )["items"]
    return items


async def test_a_planned_handover_breaks_no_stream_and_passes_no_ceiling(fleets: Stack) -> None:
    name = "hand"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=2))
    await until(fleets, name, 2)
    before = active(fleets)

    async with Streams(fleets.url, f"model-{name}", workers=12, tokens=200) as streams:
        await asyncio.sleep(3)
        fleets.cluster.kubectl("delete", "pod", "-n", fleets.namespace, before, "--wait=false")
        await asyncio.to_thread(
            fleets.cluster.wait_for,
            lambda: active(fleets) not in ("", before),
            "another holder",
            30,
        )
        await asyncio.to_thread(
            fleets.cluster.wait_for, lambda: len(gateways(fleets)) == 2, "the old pod's end", 120
        )
        held = await most_held(fleets, name)
        tally = await streams.finish()

    assert tally.clean, tally
    assert tally.whole > 24
    assert held == [4, 4], "full throughout, and never fuller"


async def test_a_killed_gateway_costs_its_own_streams_and_5_s_at_most(fleets: Stack) -> None:
    name = "kill"
    fleets.apply(fleets.fleet(name, scaling=None, replicas=1))
    await until(fleets, name, 1)
    before = active(fleets)
    body = {"model": f"model-{name}", "prompt": "a", "max_tokens": 2, "ignore_eos": True}

    async with Streams(fleets.url, f"model-{name}", workers=3, tokens=200) as streams:
        await asyncio.sleep(3)
        await asyncio.to_thread(
            faults.kill_container, fleets.cluster, fleets.namespace, before, "gateway"
        )
        killed = time.monotonic()
        served: float | None = None
        quick = aiohttp.ClientTimeout(total=6)
        while served is None and time.monotonic() - killed < 30:
            try:
                async with (
                    aiohttp.ClientSession(timeout=quick) as session,
                    session.post(f"{fleets.url}/v1/completions", json=body) as answer,
                ):
                    if answer.status == 200:
                        served = time.monotonic() - killed
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        tally = await streams.finish()

    assert served is not None
    print(f"served again {served:.1f} s after the kill")
    assert served <= 5.0
    assert len(tally.broken) <= 6, "its three streams, and clients that still knew its address"
    assert tally.whole > 0
    assert active(fleets) != ""


async def test_one_endpoint_serves_all_models_and_lists_them(fleets: Stack) -> None:
    for name in ("one", "two"):
        fleets.apply(fleets.fleet(name, scaling=None, replicas=1))
    for name in ("one", "two"):
        await until(fleets, name, 1)

    async with aiohttp.ClientSession() as session:
        answers = {}
        for name in ("one", "two"):
            body = {"model": f"model-{name}", "prompt": "a", "max_tokens": 2}
            async with session.post(f"{fleets.url}/v1/completions", json=body) as answer:
                answers[name] = (answer.status, (await answer.json())["model"])
        async with session.get(f"{fleets.url}/v1/models") as answer:
            listed = {one["id"] for one in (await answer.json())["data"]}

    assert answers == {"one": (200, "model-one"), "two": (200, "model-two")}
    assert {"model-one", "model-two"} <= listed
