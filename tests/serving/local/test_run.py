"""A local fleet end to end: it comes up, scales, heals, and goes down without a trace."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.local import record
from neuronfleet.serving.local.emulated import EmulatedEngine
from neuronfleet.serving.local.engines import Launch
from neuronfleet.serving.local.errors import LocalError
from neuronfleet.serving.local.fleet import RunningFleet
from neuronfleet.serving.local.run import LocalFleet
from neuronfleet.serving.planner.observation import Phase
from tests import schema
from tests.local_fleet import local_run, running, serving_fleet, setup, until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(120)]

BUSY = {"fleet": "f", "shape": "poisson", "requestsPerSecond": 2.0}
QUIET = {"fleet": "f", "shape": "poisson", "requestsPerSecond": 0.05}


def the_fleet(local: LocalFleet) -> RunningFleet:
    return local.fleets[0]


def serving(local: LocalFleet) -> int:
    return the_fleet(local).count(Phase.SERVING)


def reasons(local: LocalFleet) -> list[str]:
    return [event.reason for event in the_fleet(local).events]


@pytest.fixture
def children() -> Iterator[list[int]]:
    """Pids that must be gone when the test is over."""
    pids: list[int] = []
    yield pids
    alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    assert not alive


async def test_a_fleet_comes_up_answers_the_openai_client_and_leaves_no_process(
    children: list[int],
) -> None:
    async with running(setup(serving_fleet(), local_run(traffic=[QUIET]))) as local:
        await until(lambda: serving(local) == 1)
        children += [
            one.child.pid for one in the_fleet(local).roster.replicas.values() if one.child
        ]
        children.append(local.gateway.pid or 0)
        assert local.prometheus.child is not None
        children.append(local.prometheus.child.pid)

        async with openai.AsyncOpenAI(base_url=local.endpoint, api_key="none") as client:
            stream = await client.chat.completions.create(
                model="model-f",
                messages=[{"role": "user", "content": "hello there"}],
                max_tokens=8,
                stream=True,
            )
            words = [part.choices[0].delta.content or "" async for part in stream if part.choices]
            models = await client.models.list()

    assert len("".join(words).split()) == 8
    assert [one.id for one in models.data] == ["model-f"]
    assert 0 not in children


async def test_it_grows_under_load_queues_meanwhile_and_shrinks_after_it() -> None:
    stages = [
        {"at": "0s", "requestsPerSecond": 2.0},
        {"at": "4m", "requestsPerSecond": 0.05},
    ]
    load = {"fleet": "f", "shape": "stages", "stages": stages}
    async with running(setup(serving_fleet(), local_run(traffic=[load]))) as local:
        await until(lambda: serving(local) == 3)
        queued = max(q or 0 for q in local.recorder.document()["fleets"][0]["series"]["queued"])
        await until(lambda: any("LessLoad" in one for one in reasons(local)), 60)

    assert queued > 0
    assert any("SlotsNeeded" in one or "AtMaximum" in one for one in reasons(local))


async def test_a_killed_replica_loses_only_its_own_streams_and_is_replaced() -> None:
    spec = serving_fleet(scaling={"minReplicas": 2, "maxReplicas": 2})
    load = {"fleet": "f", "shape": "poisson", "requestsPerSecond": 1.0}
    async with running(setup(spec, local_run(traffic=[load]))) as local:
        await until(lambda: serving(local) == 2)
        await asyncio.sleep(2)
        victim = next(iter(the_fleet(local).roster.replicas.values()))
        stats = (await local.gateway.runtime.stats())["f"]
        held = {one.name: one.in_flight for one in stats.replicas}[victim.name]
        assert victim.child is not None
        victim.child.signal(signal.SIGKILL)
        await until(lambda: victim.name in the_fleet(local).roster.gone)
        await until(lambda: serving(local) == 2)
        await asyncio.sleep(1)
        assert the_fleet(local).client is not None
        report = the_fleet(local).client.report()  # type: ignore[union-attr]

    assert the_fleet(local).failures == 1
    # What it held, and what was handed to it in the instant before the gateway knew.
    assert report.failed <= held + 2
    assert report.completed > report.failed


async def test_while_prometheus_is_gone_a_fleet_grows_and_never_shrinks() -> None:
    async with running(setup(serving_fleet(), local_run(traffic=[QUIET]))) as local:
        await until(lambda: serving(local) == 1)
        await until(lambda: local.observer.metrics(120).fresh)
        assert local.prometheus.child is not None
        await local.prometheus.child.stop()
        await until(lambda: not local.observer.metrics(120).fresh)
        shown = local.recorder.document()["metrics"]
        async with aiohttp.ClientSession() as session:
            tasks = [asyncio.create_task(ask(session, local.endpoint)) for _ in range(12)]
            await until(lambda: serving(local) == 3)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Far longer than the window after which an idle fleet with metrics shrinks.
        await asyncio.sleep(6)
        left = serving(local)
        decision = the_fleet(local).decision

    assert shown == {"fresh": False, "age_s": shown["age_s"], "source": "gateway"}
    assert shown["age_s"] > 120
    assert left == 3
    assert decision is not None
    assert decision.reason == "MetricsUnknown"


async def ask(session: aiohttp.ClientSession, endpoint: str, **body: object) -> tuple[int, Any]:
    asked = {"model": "model-f", "prompt": "one two", "max_tokens": 400, "ignore_eos": True}
    async with session.post(f"{endpoint}/completions", json=asked | body) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("mode", "why"),
    [("dead-engine", "canary: empty answer"), ("wrong-text", "canary: wrong answer")],
)
async def test_a_broken_engine_is_found_by_its_canary_and_replaced(mode: str, why: str) -> None:
    spec = serving_fleet(scaling={"minReplicas": 2, "maxReplicas": 2})
    async with running(setup(spec, local_run(traffic=[QUIET]))) as local:
        await until(lambda: serving(local) == 2)
        victim = next(iter(the_fleet(local).roster.replicas.values()))
        url = f"{victim.url}/emulator/faults"
        async with aiohttp.ClientSession() as session:
            await session.post(url, json={"mode": mode, "on": True})
        await until(lambda: victim.name in the_fleet(local).roster.gone)
        await until(lambda: serving(local) == 2)

    assert why in reasons(local)


async def test_a_replica_that_hangs_is_found_and_replaced() -> None:
    spec = serving_fleet(queue={"timeout": "20s"}, scaling={"minReplicas": 1, "maxReplicas": 1})
    async with running(setup(spec, local_run(traffic=[BUSY]))) as local:
        await until(lambda: serving(local) == 1)
        await asyncio.sleep(1)
        victim = next(iter(the_fleet(local).roster.replicas.values()))
        async with aiohttp.ClientSession() as session:
            await session.post(f"{victim.url}/emulator/faults", json={"mode": "hang", "on": True})
        await until(lambda: victim.name in the_fleet(local).roster.gone, 60)
        await until(lambda: serving(local) == 1)

    assert any(one.startswith("canary: ") for one in reasons(local))


async def test_no_replica_ever_holds_more_than_its_ceiling_canaries_included() -> None:
    load = {"fleet": "f", "shape": "poisson", "requestsPerSecond": 4.0}
    async with running(setup(serving_fleet(), local_run(traffic=[load]))) as local:
        await until(lambda: serving(local) == 3)
        await asyncio.sleep(4)
        held = []
        async with aiohttp.ClientSession() as session:
            for one in the_fleet(local).roster.replicas.values():
                async with session.get(f"{one.url}/emulator/state") as answer:
                    held.append((await answer.json())["max_held"])

    assert max(held) == 4


async def test_a_refused_request_is_told_when_the_boot_ends() -> None:
    spec = serving_fleet(scaling={"minReplicas": 1, "maxReplicas": 1})
    slow = local_run(boot={"weights": "200s", "graphs": "0s", "warmUp": "0s"}, traffic=[QUIET])
    async with running(setup(spec, slow)) as local, aiohttp.ClientSession() as session:
        await asyncio.sleep(2.5)
        async with session.post(
            f"{local.endpoint}/completions", json={"model": "model-f", "prompt": "x"}
        ) as answer:
            status, retry = answer.status, int(answer.headers["Retry-After"])

    # 200 fleet seconds are 10 real ones, 2.5 of which are over.
    assert status == 503
    assert 5 <= retry <= 9


async def test_a_fleet_at_zero_starts_for_a_request_that_was_refused() -> None:
    spec = serving_fleet(scaling={"minReplicas": 0, "maxReplicas": 2, "idleAfter": "10m"})
    async with running(setup(spec, local_run(traffic=[QUIET | {"requestsPerSecond": 0.0001}]))) as (
        local
    ):
        await asyncio.sleep(1.5)
        assert not the_fleet(local).roster.replicas
        async with aiohttp.ClientSession() as session:
            answers = [ask_status(session, local.endpoint) for _ in range(3)]
            assert set(await asyncio.gather(*answers)) == {503}
        await until(lambda: serving(local) >= 1)


async def ask_status(session: aiohttp.ClientSession, endpoint: str) -> int:
    status, _ = await ask(session, endpoint, max_tokens=4)
    return status


async def test_two_fleets_share_one_endpoint_and_never_exceed_their_budget() -> None:
    budget = {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "Budget",
        "metadata": {"name": "both"},
        # Three replicas at $0.7582.
        "spec": {"usdPerHour": 2.3, "fleets": ["g", "f"]},
    }
    busy = [BUSY, {**BUSY, "fleet": "g"}]
    documents = (serving_fleet("f"), serving_fleet("g"), budget, local_run(traffic=busy))
    spent = []
    async with running(setup(*documents)) as local:
        await until(lambda: all(one.count(Phase.SERVING) >= 1 for one in local.fleets))
        async with aiohttp.ClientSession() as session:
            found = [
                (await ask(session, local.endpoint, model=f"model-{name}", max_tokens=4))[0]
                for name in ("f", "g")
            ]
        for _ in range(40):
            await asyncio.sleep(0.1)
            spent.append(sum(one.usd_per_hour() or 0.0 for one in local.fleets))

    assert found == [200, 200]
    assert max(spent) <= 2.3
    assert max(spent) == pytest.approx(3 * 0.7582)
    assert any("BudgetLimited" in event.reason for one in local.fleets for event in one.events)


async def test_a_taken_port_is_said_and_the_next_free_one_used() -> None:
    said: list[str] = []
    here = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 18000)
    page = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 18080)
    given = setup(serving_fleet(), local_run(traffic=[QUIET]), page=True, say=said.append)
    async with here, page, running(given) as local:
        endpoint, url = local.endpoint, local.page_url

    assert endpoint == "http://127.0.0.1:18001/v1"
    assert url == "http://127.0.0.1:18081/"
    assert said == [
        "port 18000 is taken; the endpoint is on 18001",
        "port 18080 is taken; the page is on 18081",
    ]


async def test_an_advisory_fleet_decides_and_carries_nothing_out() -> None:
    async with running(setup(serving_fleet(mode="Advisory"), local_run(traffic=[BUSY]))) as local:
        await until(lambda: serving(local) == 1)
        await until(lambda: the_fleet(local).decision is not None and wants_more(local))
        await asyncio.sleep(1.5)
        count = len(the_fleet(local).roster.replicas)

    assert count == 1
    assert sum(event.kind == "scale" for event in the_fleet(local).events) >= 1


def wants_more(local: LocalFleet) -> bool:
    decision = the_fleet(local).decision
    return decision is not None and decision.total > 1


async def test_state_and_record_are_what_their_schemas_say() -> None:
    given = setup(serving_fleet(), local_run(traffic=[BUSY], duration="80s"))
    async with LocalFleet(given) as local:
        document = await local.serve()
        state = local.recorder.document()

    schema.check(state, "state")
    schema.check(document, "run")
    assert state["finished"]
    assert document["engine"] == "emulated"
    assert "emulated" in document["figures"]
    assert document["duration_s"] >= 80


async def test_a_void_run_reports_no_figures() -> None:
    given = setup(serving_fleet(), local_run(traffic=[BUSY], duration="60s"))
    async with LocalFleet(given) as local:
        the_fleet(local).voids["f-1"] = "f-1: work started late"
        document = await local.serve()

    schema.check(document, "run")
    assert document["void"]["void"]
    assert document["fleets"][0]["usd_per_million_output_tokens"] is None
    assert document["fleets"][0]["attainment"] is None


async def test_variants_that_are_blocked_or_on_paper_are_left_out_of_the_fleet() -> None:
    inf2 = serving_fleet()["spec"]["variants"][0]
    blocked = {**inf2, "name": "long", "maxModelLen": 4096}
    paper = {"name": "gpu", "instanceType": "h200", "maxModelLen": 2048, "maxNumSeqs": 4}
    spec = serving_fleet(variants=[blocked, paper, inf2])
    async with running(setup(spec, local_run(traffic=[QUIET]))) as local:
        await until(lambda: serving(local) == 1)
        variants = {one.variant.name for one in the_fleet(local).roster.replicas.values()}

    assert variants == {"inf2"}
    with pytest.raises(SpecError, match="must hold one that can run here"):
        async with LocalFleet(setup(serving_fleet(variants=[blocked]), local_run())):
            pass


async def test_a_run_with_keys_sends_its_own_traffic_with_a_key_of_its_own(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("")
    given = setup(serving_fleet(), local_run(traffic=[BUSY], duration="80s"), keys_file=keys)
    async with LocalFleet(given) as local:
        document = await local.serve()

    assert document["fleets"][0]["requests"]["completed"] > 10
    assert document["fleets"][0]["requests"]["failed"] == 0


class Broken(EmulatedEngine):
    """Replicas whose program ends at once."""

    def launch(self, fleet: ServingFleet, variant: Variant, name: str, directory: Path) -> Launch:
        return Launch(arguments=("false",), env={}, port=1, state_port=None)


async def test_a_replica_that_never_boots_is_tried_again_less_and_less_often() -> None:
    given = setup(serving_fleet(), local_run(traffic=[QUIET]))
    async with running(replace(given, engine=Broken(given.run))) as local:
        await asyncio.sleep(8)
        failures = the_fleet(local).failures

    # At once, then after 1, 3 and 7 s.
    assert 2 <= failures <= 4
    assert any("ended while booting" in one for one in reasons(local))


async def test_keys_are_asked_for_where_a_file_names_them_and_its_changes_are_taken_up(
    tmp_path: Any,
) -> None:
    keys = tmp_path / "keys"
    digest = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"  # of "key"
    keys.write_text(f"{digest} interactive me\n")
    said: list[str] = []
    given = setup(serving_fleet(), local_run(), keys_file=keys, say=said.append)
    given = replace(given, run=replace(given.run, loads=()))
    async with running(given) as local:
        await until(lambda: serving(local) == 1)
        async with aiohttp.ClientSession() as session:
            without = await ask_status(session, local.endpoint)
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer key"}) as session:
            with_key = await ask_status(session, local.endpoint)
            keys.write_text("")
            await until_status(session, local.endpoint, 401)
            keys.write_text("no digest\n")
            await until_said(said, "API keys stay as they were")

    assert (without, with_key) == (401, 200)


async def until_status(session: aiohttp.ClientSession, endpoint: str, status: int) -> None:
    async with asyncio.timeout(10):
        while await ask_status(session, endpoint) != status:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.2)


async def until_said(said: list[str], start: str) -> None:
    await until(lambda: any(one.startswith(start) for one in said), 10)


def test_a_record_on_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(LocalError, match="No space left on device"):
        record.write({"a": 1}, Path("/dev/full"))
