"""The Lease: one holder at a time, released on the way out, let go of in time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from neuronfleet.serving.controller.lease import Lease, LeaseTimes
from tests.serving.controller.gateway.fake_api import FakeApi, free_port

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
TIMES = LeaseTimes(lease_s=2, renew_s=1.5)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    made = FakeApi()
    await made.start(free_port())
    yield made
    await made.stop()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[ApiClient]:
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{api.port}"
    async with ApiClient(configuration) as made:
        yield made


class Candidate:
    """One who leads while it may."""

    def __init__(self, client: ApiClient, name: str) -> None:
        self.lease = Lease(client, namespace="ns", name="l", identity=name, times=TIMES)
        self.leads = False
        self.led_at = self.lost_at = 0.0
        self.task = asyncio.create_task(self.lease.run(self._lead))

    async def _lead(self) -> None:
        self.leads, self.led_at = True, time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads, self.lost_at = False, time.monotonic()

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def until_leads(candidate: Candidate, leads: bool = True, seconds: float = 6.0) -> None:
    async with asyncio.timeout(seconds):
        while candidate.leads != leads:  # noqa: ASYNC110 - a flag tells no event
            await asyncio.sleep(0.01)


async def test_a_released_lease_is_taken_at_the_next_look(api: FakeApi, client: ApiClient) -> None:
    first = Candidate(client, "a")
    await until_leads(first)
    second = Candidate(client, "b")
    await asyncio.sleep(1.5)
    assert not second.leads

    await first.end()
    assert not first.leads
    await first.lease.release()
    released = time.monotonic()
    await until_leads(second)

    assert second.led_at - released < 1.5
    assert api.objects[LEASES]["l"]["spec"]["holderIdentity"] == "b"
    await second.end()


async def test_who_cannot_renew_lets_go_before_another_can_take_it(
    api: FakeApi, client: ApiClient
) -> None:
    first = Candidate(client, "a")
    await until_leads(first)

    # Its own way to the server is cut; the other's is not.
    api.blocked = "a"
    await until_leads(first, leads=False)
    second = Candidate(client, "b")
    await until_leads(second)

    assert first.lost_at < second.led_at
    assert not first.lease.held
    assert first.lease.transitions == 2
    for one in (first, second):
        await one.end()


async def test_an_api_server_that_comes_back_finds_the_candidate_still_trying(
    api: FakeApi, client: ApiClient
) -> None:
    candidate = Candidate(client, "a")
    await until_leads(candidate)

    await api.go_down()
    await until_leads(candidate, leads=False)
    assert not candidate.lease.reachable
    api.down = False
    await until_leads(candidate)

    await candidate.end()


async def test_the_end_of_the_leaders_work_is_the_end_of_the_run(
    api: FakeApi, client: ApiClient
) -> None:
    async def fails() -> None:
        raise ValueError("broken")

    lease = Lease(client, namespace="ns", name="l", identity="a", times=TIMES)

    with pytest.raises(ValueError, match="broken"):
        await lease.run(fails)
    await lease.release()
    assert api.objects[LEASES]["l"]["spec"].get("holderIdentity") is None
