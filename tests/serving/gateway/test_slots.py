from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from neuronfleet.serving.gateway.errors import GatewayCommandError, ReplicaBusyError
from neuronfleet.serving.gateway.stats import ReplicaState

if TYPE_CHECKING:
    from tests.serving.gateway.conftest import Rig

    StartRig = Callable[..., Awaitable[Rig]]

pytestmark = pytest.mark.peer


async def test_no_replica_is_ever_above_its_ceiling_at_overload(rig: StartRig) -> None:
    gateway = await rig()
    first = await gateway.add("llama", "r1", 2)
    second = await gateway.add("llama", "r2", 3)

    answers = await asyncio.gather(*(gateway.ask({"model": "m1", "events": 2}) for _ in range(60)))

    assert {a.status for a in answers} == {200}
    assert (first.most, second.most) == (2, 3)
    fleet = (await gateway.process.runtime.stats())["llama"]
    assert [r.max_in_flight for r in fleet.replicas] == [2, 3]
    assert (fleet.requests, fleet.refused, fleet.queued, fleet.in_flight) == (60, 0, 0, 0)


async def test_a_replica_that_joins_a_long_queue_is_not_filled_twice(rig: StartRig) -> None:
    gateway = await rig()
    replicas = [await gateway.add("llama", "r1", 4)]
    asked = [asyncio.create_task(gateway.ask({"model": "m1", "events": 8})) for _ in range(40)]
    await gateway.until_queued("llama", 36)

    replicas += await asyncio.gather(*(gateway.add("llama", f"r{i}", 4) for i in (2, 3)))
    # What arrives after that finds a queue, and replicas that are full already.
    for _ in range(40):
        asked.append(asyncio.create_task(gateway.ask({"model": "m1", "events": 2})))
        await asyncio.sleep(0.005)
    answers = await asyncio.gather(*asked)

    assert {a.status for a in answers} == {200}
    assert [replica.most for replica in replicas] == [4, 4, 4]


async def test_canaries_share_the_ceiling_with_public_requests(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 2)

    answers = await asyncio.gather(
        *(gateway.ask({"model": "m1", "events": 3}) for _ in range(10)),
        *(gateway.canary("llama", "r1", {"model": "m1", "tag": "canary"}) for _ in range(4)),
    )

    assert {a.status for a in answers} == {200}
    assert replica.most == 2


async def test_a_canary_goes_before_the_queue(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    public = [asyncio.create_task(gateway.ask({"model": "m1", "events": 10, "tag": "first"}))]
    await gateway.until(lambda: _now(replica.now == 1))
    public += [
        asyncio.create_task(gateway.ask({"model": "m1", "tag": f"public {i}"})) for i in range(3)
    ]
    await gateway.until_queued("llama", 3)

    await gateway.canary("llama", "r1", {"model": "m1", "tag": "canary"})
    await asyncio.gather(*public)

    assert replica.order[:2] == ["first", "canary"]


async def _now(value: bool) -> bool:
    return value


async def test_a_canary_reaches_exactly_the_replica_it_names(rig: StartRig) -> None:
    gateway = await rig()
    for name in ("r1", "r2", "r3"):
        await gateway.add("llama", name, 4)

    for name in ("r1", "r2", "r3"):
        for _ in range(4):
            assert f"data: {name} 0" in (await gateway.canary("llama", name)).text


@pytest.mark.parametrize(
    ("fleet", "replica"),
    [("llama", "r9"), ("qwen", "r1"), ("nope", "r1"), ("llama", ""), ("", ""), ("llama", 'r"1')],
)
async def test_a_canary_for_an_unknown_replica_is_refused_and_reaches_no_other(
    rig: StartRig, fleet: str, replica: str
) -> None:
    gateway = await rig()
    other = await gateway.add("llama", "r1", 4)

    answer = await gateway.canary(fleet, replica)

    assert (answer.status, answer.json["error"]["type"]) == (404, "NotFoundError")
    assert other.most == 0


async def test_a_canary_for_a_dead_replica_is_not_tried_on_another(rig: StartRig) -> None:
    gateway = await rig(check_seconds=60.0)
    other = await gateway.add("llama", "r1", 4)
    await gateway.process.runtime.add_replica("llama", "dead", "127.0.0.1", 1, 4)

    answer = await gateway.canary("llama", "dead")

    assert answer.status == 503
    assert other.most == 0


async def test_a_draining_replica_answers_canaries_and_takes_nothing_else(rig: StartRig) -> None:
    gateway = await rig()
    runtime = gateway.process.runtime
    draining = await gateway.add("llama", "r1", 4)
    await gateway.add("llama", "r2", 4)
    await runtime.drain_replica("llama", "r1")

    canary = await gateway.canary("llama", "r1")
    public = await asyncio.gather(*(gateway.ask() for _ in range(6)))

    assert "data: r1 0" in canary.text
    assert all("data: r2 0" in answer.text for answer in public)
    assert len(draining.order) == 1
    assert (await runtime.stats())["llama"].replicas[0].state is ReplicaState.DRAIN


async def test_a_request_fails_over_from_a_replica_that_refuses_connections(rig: StartRig) -> None:
    gateway = await rig(check_seconds=60.0)
    await gateway.add("llama", "r1", 4)
    await gateway.process.runtime.add_replica("llama", "dead", "127.0.0.1", 1, 4)

    answers = await asyncio.gather(*(gateway.ask() for _ in range(8)))

    assert {a.status for a in answers} == {200}
    assert (await gateway.process.runtime.stats())["llama"].refused == 0


async def test_a_new_replica_takes_from_the_queue_at_once(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 1)
    asks = [asyncio.create_task(gateway.ask({"model": "m1", "events": 40})) for _ in range(3)]
    await gateway.until_queued("llama", 2)

    second = await gateway.add("llama", "r2", 2)

    await gateway.until(lambda: _now(second.now == 2), seconds=0.5)
    await asyncio.gather(*asks)


async def test_a_raised_ceiling_takes_from_the_queue_at_once(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    asks = [asyncio.create_task(gateway.ask({"model": "m1", "events": 40})) for _ in range(4)]
    await gateway.until_queued("llama", 3)

    await gateway.process.runtime.set_ceiling("llama", "r1", 3)

    await gateway.until_queued("llama", 1)
    await gateway.until(lambda: _now(replica.now == 3), seconds=0.5)
    await asyncio.gather(*asks)


async def test_a_lowered_ceiling_cuts_nothing_and_then_holds(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 3)
    asks = [asyncio.create_task(gateway.ask({"model": "m1", "events": 10})) for _ in range(3)]
    await gateway.until(lambda: _now(replica.now == 3))

    await gateway.process.runtime.set_ceiling("llama", "r1", 1)

    assert all("[DONE]" in a.text for a in await asyncio.gather(*asks))
    replica.most = 0
    await asyncio.gather(*(gateway.ask() for _ in range(5)))
    assert replica.most == 1


async def test_an_undrained_replica_takes_from_the_queue_at_once(rig: StartRig) -> None:
    gateway = await rig()
    runtime = gateway.process.runtime
    await gateway.add("llama", "r1", 1)
    second = await gateway.add("llama", "r2", 2)
    await runtime.drain_replica("llama", "r2")
    asks = [asyncio.create_task(gateway.ask({"model": "m1", "events": 40})) for _ in range(3)]
    await gateway.until_queued("llama", 2)

    await runtime.undrain_replica("llama", "r2")

    await gateway.until(lambda: _now(second.now == 2), seconds=0.5)
    await asyncio.gather(*asks)


async def test_replicas_come_drain_and_go_without_a_lost_stream(rig: StartRig) -> None:
    gateway = await rig()
    runtime = gateway.process.runtime
    await gateway.add("llama", "r0", 4)
    stop = asyncio.Event()
    texts: list[str] = []

    async def client() -> None:
        while not stop.is_set():
            texts.append((await gateway.ask({"model": "m1", "events": 4})).text)

    clients = [asyncio.create_task(client()) for _ in range(12)]
    for i in range(1, 6):
        await gateway.add("llama", f"r{i}", 4)
        await runtime.drain_replica("llama", f"r{i - 1}")
        with pytest.raises(ReplicaBusyError):
            await runtime.remove_replica("llama", f"r{i - 1}")
        await _remove(gateway, f"r{i - 1}")
    stop.set()
    await asyncio.gather(*clients)

    assert len(texts) > 20
    assert all(text.endswith("[DONE]\n\n") for text in texts)
    assert [r.name for r in (await runtime.stats())["llama"].replicas] == ["r5"]


async def _remove(gateway: Rig, name: str) -> None:
    async def removed() -> bool:
        try:
            await gateway.process.runtime.remove_replica("llama", name)
        except ReplicaBusyError:
            return False
        return True

    await gateway.until(removed)


async def test_a_replica_is_not_removed_while_a_client_still_reads_its_answer(
    rig: StartRig,
) -> None:
    gateway = await rig(max_body_bytes=1024 * 1024)
    replica = await gateway.add("llama", "r1", 1)
    size = 6 * 1024 * 1024
    replica.answer = lambda: web.Response(body=b"x" * size)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port, limit=1024)
    body = json.dumps({"model": "m1"}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await gateway.until(lambda: _now(len(replica.order) == 1))
    await asyncio.sleep(0.3)
    await gateway.process.runtime.drain_replica("llama", "r1")

    with pytest.raises(ReplicaBusyError):
        await gateway.process.runtime.remove_replica("llama", "r1")

    await reader.readuntil(b"\r\n\r\n")
    assert len(await reader.readexactly(size)) == size
    writer.close()
    await _remove(gateway, "r1")


async def test_the_streams_of_a_dead_replica_can_be_cut(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 1)
    ask = asyncio.create_task(gateway.ask({"model": "m1", "events": 1, "seconds": 20}))
    await gateway.until_in_flight("llama", 1)

    await gateway.process.runtime.remove_replica("llama", "r1", cut_streams=True)

    with pytest.raises(Exception, match="payload"):
        await ask
    assert (await gateway.process.runtime.stats())["llama"].replicas == ()


async def test_a_replica_whose_health_fails_takes_nothing_until_it_is_well_again(
    rig: StartRig,
) -> None:
    gateway = await rig(check_seconds=0.05)
    ill = await gateway.add("llama", "r1", 4)
    await gateway.add("llama", "r2", 4)

    async def state(wanted: ReplicaState) -> bool:
        return (await gateway.process.runtime.stats())["llama"].replicas[0].state is wanted

    ill.healthy = False
    await gateway.until(lambda: state(ReplicaState.DOWN))
    answers = await asyncio.gather(*(gateway.ask() for _ in range(4)))
    assert all("data: r2 0" in answer.text for answer in answers)
    ill.healthy = True
    await gateway.until(lambda: state(ReplicaState.UP))


async def test_a_vanished_client_leaves_the_queue_and_its_request_reaches_no_replica(
    rig: StartRig,
) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    first = asyncio.create_task(gateway.ask({"model": "m1", "events": 30, "tag": "first"}))
    await gateway.until(lambda: _now(replica.now == 1))
    gone = asyncio.create_task(gateway.ask({"model": "m1", "tag": "gone"}))
    await gateway.until_queued("llama", 1)

    gone.cancel()

    await gateway.until_queued("llama", 0)
    await first
    assert replica.order == ["first"]
    assert (await gateway.process.runtime.stats())["llama"].refused == 0


async def test_a_client_that_breaks_off_its_stream_frees_the_slot(rig: StartRig) -> None:
    gateway = await rig()
    replica = await gateway.add("llama", "r1", 1)
    ask = asyncio.create_task(gateway.ask({"model": "m1", "events": 1000}))
    await gateway.until(lambda: _now(replica.now == 1))

    ask.cancel()

    await gateway.until(lambda: _now(replica.now == 0), seconds=1)


async def test_a_stream_is_passed_on_event_by_event(rig: StartRig) -> None:
    gateway = await rig()
    await gateway.add("llama", "r1", 1)
    url = f"http://127.0.0.1:{gateway.settings.port}/v1/completions"
    loop = asyncio.get_running_loop()

    async with gateway.session.post(
        url, json={"model": "m1", "events": 2, "seconds": 0.5}
    ) as response:
        begin = loop.time()
        assert b"r1 0" in await response.content.readline()
        assert loop.time() - begin < 0.3
        assert b"[DONE]" in await response.content.read()
        assert loop.time() - begin > 0.5


async def test_haproxys_refusal_of_a_command_says_the_command_and_the_answer(rig: StartRig) -> None:
    gateway = await rig()

    with pytest.raises(GatewayCommandError, match=r"llama/r9.*No such server"):
        await gateway.process.runtime.set_ceiling("llama", "r9", 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("nope", "r1", "127.0.0.1", 80, 1), "fleet = 'nope', must be one of llama, qwen"),
        (("llama", "r1;quit", "127.0.0.1", 80, 1), "replica = 'r1;quit'"),
        (("llama", "r1", "127.0.0.1", 0, 1), "port = 0"),
        (("llama", "r1", "127.0.0.1", 80, 0), "ceiling = 0"),
        (("llama", "r1", "no address", 80, 1), "no address"),
    ],
)
async def test_a_wrong_argument_is_refused_before_haproxy_sees_it(
    rig: StartRig, call: tuple[str, str, str, int, int], message: str
) -> None:
    gateway = await rig()

    with pytest.raises(ValueError, match=message):
        await gateway.process.runtime.add_replica(*call)
