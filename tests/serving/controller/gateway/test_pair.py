"""Two real gateway pods: HAProxy, queues and claims, before replicas that count."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from tests.serving.controller.gateway.conftest import Cluster, Replica

pytestmark = pytest.mark.peer


class Load:
    """Clients that ask again and again until told to end; every answer is kept."""

    def __init__(self, cluster: "Cluster", model: str, pods: Callable[[int], str]) -> None:
        self.answers: list[tuple[int, str]] = []
        self.errors: list[Exception] = []
        self._cluster, self._model, self._pods = cluster, model, pods
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, clients: int, *, events: int = 10, seconds: float = 0.03) -> None:
        async def client(number: int) -> None:
            while not self._over.is_set():
                try:
                    answer = await self._cluster.ask(
                        self._pods(number), self._model, events=events, seconds=seconds
                    )
                    self.answers.append(answer)
                except aiohttp.ClientError as error:
                    self.errors.append(error)

        self._tasks = [asyncio.create_task(client(number)) for number in range(clients)]

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)

    def assert_unbroken(self) -> None:
        assert not self.errors
        assert {status for status, _ in self.answers} == {200}
        assert all("[DONE]" in text for _, text in self.answers)


async def start_pair(cluster: "Cluster", model: str = "m1") -> None:
    cluster.give_lease("gw-a")
    await cluster.start("gw-a")
    await cluster.start("gw-b")
    for pod in ("gw-a", "gw-b"):
        await cluster.until_serves(pod, model)


async def fleet_of(cluster: "Cluster", ceilings: list[int]) -> list["Replica"]:
    cluster.add_fleet("ns.llama", "m1")
    return [
        await cluster.add_replica("ns.llama", f"r{i}", ceiling)
        for i, ceiling in enumerate(ceilings)
    ]


async def test_either_pod_leads_to_the_one_queue(cluster: "Cluster") -> None:
    await fleet_of(cluster, [2])
    await start_pair(cluster)

    claims_a = json.loads((await cluster.get("gw-a", "/claims?queued"))[1])
    claims_b = json.loads((await cluster.get("gw-b", "/claims"))[1])
    models = await cluster.get("gw-b", "/v1/models", cluster.settings["port"])

    assert claims_a["active"] is True
    assert claims_a["claims"] == {"ns.llama": {"r0": 2}}
    assert claims_a["queued"] == {"ns.llama": 0}
    assert json.loads((await cluster.get("gw-a", "/queues"))[1]) == claims_a["queues"]
    assert claims_b == {"active": False, "claims": {}, "queues": {}}
    assert [one["id"] for one in json.loads(models[1])["data"]] == ["m1"]
    assert (await cluster.ask("gw-b", "nope"))[0] == 404


async def test_a_planned_handover_under_load_breaks_no_stream_and_passes_no_ceiling(
    cluster: "Cluster",
) -> None:
    replicas = await fleet_of(cluster, [2, 3])
    await start_pair(cluster)
    # As clients behind a Service: they ask either pod until one is seen to leave.
    load = Load(
        cluster, "m1", lambda i: "gw-b" if i % 2 or cluster.stops["gw-a"].is_set() else "gw-a"
    )
    load.begin(12)
    # 12 clients, 5 slots.
    await cluster.until(lambda: cluster.agents["gw-a"].queued()["ns.llama"] > 5)

    await cluster.end("gw-a")
    await asyncio.sleep(1.0)
    await load.end()

    load.assert_unbroken()
    assert [replica.most for replica in replicas] == [2, 3]
    assert cluster.agents["gw-b"].queues.claims() == {"ns.llama": {"r0": 2, "r1": 3}}


async def test_during_a_handover_requests_wait_for_the_old_queues_streams_to_end(
    cluster: "Cluster",
) -> None:
    (replica,) = await fleet_of(cluster, [1])
    await start_pair(cluster)
    old = asyncio.create_task(cluster.ask("gw-b", "m1", events=20, seconds=0.1))
    await cluster.until(lambda: replica.now == 1)

    cluster.give_lease("gw-b")
    await cluster.until(lambda: "ns.llama" in cluster.agents["gw-b"].answer().queues)
    began = time.monotonic()
    status, _ = await cluster.ask("gw-b", "m1")

    assert status == 200, "with every slot still claimed the new queue queues"
    assert time.monotonic() - began > 1.0
    assert (await old)[0] == 200
    assert replica.most == 1
    assert cluster.agents["gw-a"].queues.claims() == {}


async def test_a_lease_that_goes_to_and_fro_passes_no_ceiling(cluster: "Cluster") -> None:
    replicas = await fleet_of(cluster, [2, 1])
    await start_pair(cluster)
    load = Load(cluster, "m1", lambda i: ("gw-a", "gw-b")[i % 2])
    load.begin(8, events=8)

    for turn in range(8):
        cluster.give_lease(("gw-b", "gw-a")[turn % 2])
        await asyncio.sleep(0.25 * (1 + turn % 3))
    await load.end()

    load.assert_unbroken()
    assert [replica.most for replica in replicas] == [2, 1]


async def test_a_fleet_that_comes_or_goes_breaks_no_other_fleets_stream(
    cluster: "Cluster",
) -> None:
    await fleet_of(cluster, [4])
    await start_pair(cluster)
    load = Load(cluster, "m1", lambda i: ("gw-a", "gw-b")[i % 2])
    load.begin(6)

    for turn in range(3):
        cluster.add_fleet("ns.qwen", "m2")
        replica = await cluster.add_replica("ns.qwen", f"q{turn}", 1)
        await cluster.until_serves("gw-b", "m2")
        cluster.fleets.pop("ns.qwen")
        cluster.replicas.pop(replica.pod)
        cluster.tell()
        await cluster.until(lambda: "ns.qwen" not in cluster.agents["gw-a"].queues.current)
        await cluster.until_unknown("m2")
        assert replica.runner is not None
        await replica.runner.cleanup()
    await load.end()

    load.assert_unbroken()


async def test_a_deleted_fleets_streams_end_by_themselves(cluster: "Cluster") -> None:
    (replica,) = await fleet_of(cluster, [1])
    await start_pair(cluster)
    stream = asyncio.create_task(cluster.ask("gw-b", "m1", events=15, seconds=0.1))
    await cluster.until(lambda: replica.now == 1)

    cluster.fleets.clear()
    replica.terminating = True
    cluster.tell()

    assert "[DONE]" in (await stream)[1]
    await cluster.until(lambda: cluster.agents["gw-a"].queues.ended)


async def test_ceilings_follow_the_cluster_and_a_terminating_replica_drains(
    cluster: "Cluster",
) -> None:
    first, second = await fleet_of(cluster, [1, 1])
    await start_pair(cluster)
    queues = cluster.agents["gw-a"].queues

    first.ceiling = 3
    cluster.tell()
    await cluster.until(lambda: queues.claims()["ns.llama"] == {"r0": 3, "r1": 1})

    streams = [
        asyncio.create_task(cluster.ask("gw-b", "m1", events=20, seconds=0.05)) for _ in range(4)
    ]
    await cluster.until(lambda: second.now == 1)
    served = second.served
    second.terminating = True
    cluster.tell()
    await cluster.until(lambda: queues.current["ns.llama"].slots == 3)
    for _ in range(3):
        assert (await cluster.ask("gw-b", "m1"))[0] == 200

    assert all("[DONE]" in text for _, text in await asyncio.gather(*streams))
    assert second.served <= served + 1
    cluster.replicas.pop("r1")
    cluster.tell()
    await cluster.until(lambda: queues.claims()["ns.llama"] == {"r0": 3})
    await cluster.until(lambda: queues.current["ns.llama"].replicas == 1)
    await (second.runner.cleanup() if second.runner else asyncio.sleep(0))


async def test_a_vanished_replicas_streams_are_cut_since_its_pod_is_gone(
    cluster: "Cluster",
) -> None:
    (replica,) = await fleet_of(cluster, [1])
    await start_pair(cluster)
    stream = asyncio.create_task(cluster.ask("gw-b", "m1", events=200, seconds=0.1))
    await cluster.until(lambda: replica.now == 1)

    gone = cluster.replicas.pop("r0")
    cluster.tell()

    with pytest.raises(aiohttp.ClientError):
        await stream
    await cluster.until(lambda: cluster.agents["gw-a"].queues.current["ns.llama"].replicas == 0)
    status, text = await cluster.ask("gw-b", "m1")
    assert status == 503, "a fleet without a replica refuses at once"
    assert "No replica was free" in text
    assert gone.runner is not None
    await gone.runner.cleanup()


async def test_another_queue_timeout_is_another_queue_that_takes_over_in_the_same_pod(
    cluster: "Cluster",
) -> None:
    (replica,) = await fleet_of(cluster, [2])
    await start_pair(cluster)
    load = Load(cluster, "m1", lambda i: ("gw-a", "gw-b")[i % 2])
    load.begin(5)
    before = cluster.agents["gw-a"].queues.current["ns.llama"]

    cluster.change_fleet("ns.llama", queue_s=7.0)
    await cluster.until(lambda: not cluster.agents["gw-a"].queues.leaving and before.pid is None)
    await load.end()

    load.assert_unbroken()
    assert replica.most == 2
    after = cluster.agents["gw-a"].queues.current["ns.llama"]
    assert after.settings.fleet.queue_seconds == 7.0


async def test_a_renamed_model_moves_with_its_fleet_and_the_older_fleet_keeps_a_shared_one(
    cluster: "Cluster",
) -> None:
    await fleet_of(cluster, [1])
    await start_pair(cluster)
    cluster.add_fleet("ns.younger", "m1")

    async def refused() -> bool:
        return "neuronfleet_gateway_refused_fleets{" in (await cluster.get("gw-a", "/metrics"))[1]

    await cluster.until(refused)
    assert (await cluster.ask("gw-a", "m1"))[0] == 200

    cluster.change_fleet("ns.llama", model="m3")
    await cluster.until_serves("gw-b", "m3")
    # Until it has its queue, a request for its model would look for that for 30 s.
    await cluster.until(lambda: "ns.younger" in cluster.agents["gw-a"].answer().queues)
    cluster.fleets.pop("ns.younger")
    cluster.tell()
    await cluster.until_unknown("m1")


async def test_without_the_api_server_traffic_goes_on(cluster: "Cluster") -> None:
    await fleet_of(cluster, [2])
    await start_pair(cluster)

    cluster.api_up = False
    for lease in cluster.leases.values():
        lease.reachable = False
    await asyncio.sleep(1.0)

    assert cluster.agents["gw-a"].active_since is not None
    assert cluster.agents["gw-b"].active_since is None
    assert (await cluster.ask("gw-b", "m1"))[0] == 200


async def test_a_queue_whose_haproxy_ends_by_itself_is_begun_anew(cluster: "Cluster") -> None:
    await fleet_of(cluster, [2])
    await start_pair(cluster)
    pid = cluster.agents["gw-a"].queues.current["ns.llama"].pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    assert (await cluster.ask("gw-b", "m1"))[0] == 200
    assert cluster.agents["gw-a"].queues.current["ns.llama"].pid != pid


async def test_metrics_of_all_haproxys_are_one_valid_exposition_by_fleet(
    cluster: "Cluster",
) -> None:
    await fleet_of(cluster, [2])
    cluster.add_fleet("ns.qwen", "m2")
    await cluster.add_replica("ns.qwen", "q0", 1)
    await start_pair(cluster)
    await cluster.until_serves("gw-a", "m2")
    stream = asyncio.create_task(cluster.ask("gw-b", "m1", events=40, seconds=0.05))
    await cluster.until(lambda: cluster.replicas["r0"].now == 1)

    _, text = await cluster.get("gw-a", "/metrics")
    _, standby = await cluster.get("gw-b", "/metrics")
    await stream

    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    samples = [sample for family in families for sample in family.samples]
    series = [(sample.name, *sorted(sample.labels.items())) for sample in samples]
    assert len(names) == len(set(names))
    assert len(series) == len(set(series))
    proxies = {sample.labels["proxy"] for sample in samples if "proxy" in sample.labels}
    assert {p for p in proxies if not p.startswith("_")} == {"ns.llama", "ns.qwen"}
    in_flight = {
        sample.labels["server"]: sample.value
        for sample in samples
        if sample.name == "haproxy_server_current_sessions"
    }
    assert in_flight == {"r0": 1, "q0": 0}
    values = {sample.name: sample.value for sample in samples if not sample.labels}
    assert values["neuronfleet_gateway_active"] == 1
    assert "neuronfleet_gateway_active 0" in standby
    assert "ns.llama" not in standby


async def test_the_extra_hop_costs_little(cluster: "Cluster") -> None:
    (replica,) = await fleet_of(cluster, [8])
    await start_pair(cluster)

    async def median_ms(url: str) -> float:
        times = []
        for _ in range(60):
            began = time.perf_counter()
            async with cluster.session.post(url, json={"model": "m1", "seconds": 0.0}) as response:
                assert response.status == 200
                await response.read()
            times.append(1000 * (time.perf_counter() - began))
        return sorted(times)[len(times) // 2]

    queue = cluster.agents["gw-a"].queues.current["ns.llama"].settings.port
    direct = await median_ms(f"http://127.0.0.1:{replica.port}/v1/completions")
    by_queue = await median_ms(f"http://127.0.0.1:{queue}/v1/completions")
    by_router = await median_ms(f"http://127.0.0.2:{cluster.settings['port']}/v1/completions")

    print(f"direct {direct:.2f}, queue {by_queue:.2f}, router and queue {by_router:.2f} ms")
    assert by_router < by_queue + 20


async def test_readiness_follows_the_router_and_the_cluster(cluster: "Cluster") -> None:
    await fleet_of(cluster, [1])
    await start_pair(cluster)

    assert (await cluster.get("gw-b", "/readyz"))[0] == 200
    assert (await cluster.get("gw-b", "/healthz"))[0] == 200
    cluster.feeds["gw-b"].synced = False
    assert (await cluster.get("gw-b", "/readyz"))[0] == 503

    cluster.feeds["gw-b"].synced = True
    cluster.settings["leave_s"] = 2.0
    ending = asyncio.create_task(cluster.end("gw-a"))

    async def leaves() -> bool:
        with suppress(aiohttp.ClientError):
            port = cluster.settings["port"]
            return (await cluster.get("gw-a", "/health", port))[0] == 503
        return False

    await cluster.until(leaves)
    assert (await cluster.get("gw-a", "/readyz"))[0] == 503
    await ending
