"""Readings of all fleets by one query, and what stands in for them."""

from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from neuronfleet.serving.controller import source
from neuronfleet.serving.controller.gateway_source import GatewaySource, counters
from neuronfleet.serving.controller.source import SourceError, readings
from neuronfleet.serving.planner.observation import Origin
from tests.controller_world import Controlled, World, fleet_body


def series(name: str, value: str, **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, **labels}, "value": [0, value]}


def answer(*found: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(found)}}


def test_series_are_grouped_by_fleet_and_replicas_of_two_gateways_added_up() -> None:
    found = readings(
        answer(
            series("fleet:scraped:timestamp", "100.5", fleet="ns.a"),
            series("fleet:queued:sum", "3", fleet="ns.a"),
            series("fleet:arrivals:rate", "0.5", fleet="ns.a"),
            series("haproxy_server_current_sessions", "2", proxy="ns.a", server="p1", pod="g1"),
            series("haproxy_server_current_sessions", "1", proxy="ns.a", server="p1", pod="g2"),
            series("fleet:queued:sum", "0", fleet="ns.b"),
        )
    )

    sample = found["ns.a"].sample()
    assert sample is not None
    assert (sample.at_s, sample.queued, sample.arrivals_per_s) == (100.5, 3.0, 0.5)
    assert sample.in_flight == {"p1": 3.0}
    assert sample.origin is Origin.METRICS
    assert found["ns.b"].sample() is None, "its gateway was never scraped: its load is unknown"


def test_a_mean_over_nothing_is_unknown_and_not_zero() -> None:
    found = readings(
        answer(
            series("fleet:scraped:timestamp", "1", fleet="a"),
            series("fleet:queued:sum", "0", fleet="a"),
            series("fleet:prompt_tokens:mean", "NaN", fleet="a"),
        )
    )

    sample = found["a"].sample()
    assert sample is not None
    assert sample.prompt_tokens is None


def test_series_without_the_labels_of_a_replica_or_a_fleet_count_for_nothing() -> None:
    found = readings(
        answer(
            series("haproxy_server_current_sessions", "2", proxy="ns.a"),
            series("fleet:queued:sum", "3"),
            {"metric": {"fleet": "ns.a"}, "value": [0, "1"]},
        )
    )

    assert found == {}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, "starting", "503 starting"),
        (200, "no JSON", "JSONDecodeError"),
        (200, '{"status": "success"}', "no result of an instant query: KeyError"),
        (200, '{"data": {"result": [{"metric": {}, "value": 3}]}}', "TypeError"),
        (200, '{"data": {"result": [{"metric": {}, "value": [0, "x"]}]}}', "ValueError"),
    ],
)
async def test_a_source_that_does_not_answer_is_an_error(status: int, body: str, said: str) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_post("/api/v1/query", handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        with pytest.raises(SourceError, match=said):
            await source.read(session, str(server.make_url("")).rstrip("/"))


METRICS = """\
# TYPE haproxy_backend_current_queue gauge
haproxy_backend_current_queue{proxy="serving.f"} 5
haproxy_backend_current_queue{proxy="_router"} 9
# TYPE haproxy_backend_http_requests_total counter
haproxy_backend_http_requests_total{proxy="serving.f"} %d
# TYPE haproxy_backend_connection_errors_total counter
haproxy_backend_connection_errors_total{proxy="serving.f"} 0
# TYPE haproxy_server_current_sessions gauge
haproxy_server_current_sessions{proxy="serving.f",server="p1"} 4
"""


def test_the_gateway_s_counters_are_those_of_fleets_alone() -> None:
    found = counters([METRICS % 10, METRICS % 1])

    assert set(found) == {"serving.f"}
    assert found["serving.f"].queued == 10
    assert found["serving.f"].requests == 11
    assert found["serving.f"].in_flight == {"p1": 8.0}


async def test_rates_are_differences_between_two_looks() -> None:
    requests = iter([10, 40, 3])

    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=METRICS % next(requests))

    app = web.Application()
    app.router.add_get("/metrics", handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        base = str(server.make_url("")).rstrip("/")

        async def addresses() -> list[str]:
            return [base, "http://127.0.0.1:9"]

        asked = GatewaySource(session, addresses)
        first, second, restarted = [await asked.read(now) for now in (0.0, 10.0, 20.0)]

    assert first["serving.f"].arrivals_per_s is None
    assert second["serving.f"].arrivals_per_s == 3.0
    assert second["serving.f"].origin is Origin.GATEWAY
    assert restarted["serving.f"].arrivals_per_s is None, "a counter that fell was begun anew"


async def test_while_prometheus_is_away_a_fleet_grows_by_the_gateway_s_counters_alone() -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)
    world.source = "away"

    async def stand_in(now: float) -> dict[str, Any]:
        found = await World.ask(world_seen)
        return {
            key: source.Reading(recorded=one.recorded, in_flight=one.in_flight).sample()
            for key, one in found.items()
        }

    world_seen = World()
    world_seen.fleets, world_seen.pods = world.fleets, world.pods
    gatherer = controlled.loop

    async def by_gateway(now: float) -> dict[str, Any]:
        world_seen.now, world_seen.load = world.now, world.load
        samples = await stand_in(now)
        return {k: replace(s, origin=Origin.GATEWAY) for k, s in samples.items()}

    gatherer._stand_in = by_gateway
    world.spread(9.0)
    await controlled.turns(60)
    grown = list(world.replicas().values())
    world.spread(0.0)
    await controlled.turns(400)

    assert grown == [4]
    assert list(world.replicas().values()) == [4]
    assert controlled.condition("MetricsAvailable")["reason"] == "SourceError"
