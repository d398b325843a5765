"""Watches follow the cluster through restarts, expired versions and silence."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from neuronfleet.serving.controller.gateway.watch import Watcher
from tests.serving.controller.gateway.fake_api import FakeApi, free_port

PATH = "/apis/neuronfleet.dev/v1alpha1/namespaces/ns/servingfleets"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    made = FakeApi()
    await made.start(free_port())
    yield made
    await made.stop()


@pytest.fixture
async def watcher(api: FakeApi) -> AsyncIterator[Watcher[str]]:
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{api.port}"
    async with ApiClient(configuration) as client:
        made = Watcher(
            client, PATH, selector="", parse=said, changed=lambda: None, rng=random.Random(1)
        )
        task = asyncio.create_task(made.run())
        yield made
        task.cancel()
        await asyncio.wait({task})


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(8.0):
        while not met():  # noqa: ASYNC110 - watches tell no event here
            await asyncio.sleep(0.01)


def said(item: Mapping[str, Any]) -> str:
    return str(item["spec"])


def fleet(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {}}


async def test_objects_come_change_and_go(api: FakeApi, watcher: Watcher[str]) -> None:
    await api.put(PATH, fleet("a"))
    await until(lambda: "ns/a" in watcher.facts)
    await api.put(PATH, fleet("b"))
    await until(lambda: "ns/b" in watcher.facts)
    await api.delete(PATH, "a")
    await until(lambda: list(watcher.facts) == ["ns/b"])

    assert watcher.synced


async def test_what_changed_while_the_server_was_away_is_heard_afterwards(
    api: FakeApi, watcher: Watcher[str]
) -> None:
    await api.put(PATH, fleet("a"))
    await until(lambda: "ns/a" in watcher.facts)

    await api.go_down()
    await api.delete(PATH, "a")
    await api.put(PATH, fleet("b"))
    await asyncio.sleep(0.5)
    assert "ns/a" in watcher.facts, "the last that was known stands"
    api.down = False

    await until(lambda: list(watcher.facts) == ["ns/b"])


async def test_an_expired_version_lists_anew(api: FakeApi, watcher: Watcher[str]) -> None:
    await until(lambda: watcher.synced)
    await api.go_down()
    # As after a compaction: events are gone, and the version with them.
    await api.put(PATH, fleet("a"))
    api.events.clear()
    api.oldest = api.version
    api.down = False

    await until(lambda: "ns/a" in watcher.facts)
    assert api.requests.count(f"GET {PATH}") >= 3
