"""Gateway pods as real processes before a fake API server: crashes, and an API that goes away."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.serving.controller.gateway.fake_api import FakeApi, free_port

pytestmark = pytest.mark.peer

MODULE = "neuronfleet.serving.controller.gateway"
HOSTS = {"gw-a": "127.0.0.1", "gw-b": "127.0.0.2"}
FLEETS = "/apis/neuronfleet.dev/v1alpha1/namespaces/ns/servingfleets"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


class Pods:
    """Two gateway pods, one fleet and its replicas."""

    def __init__(self, directory: Path, cluster: Any) -> None:
        self.api = FakeApi()
        self.api_port = free_port()
        self.directory = directory
        self.cluster = cluster
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        await self.api.start(self.api_port)
        await self.api.put(
            SLICES.format("gw"),
            {
                "metadata": {"name": "gw-1", "labels": {"kubernetes.io/service-name": "gw"}},
                "endpoints": [
                    {"addresses": [host], "targetRef": {"name": pod}} for pod, host in HOSTS.items()
                ],
            },
        )
        (self.directory / "kubeconfig").write_text(yaml.safe_dump(_kubeconfig(self.api_port)))

    async def add_fleet(self, name: str, model: str, ceilings: dict[str, int]) -> None:
        await self.api.put(
            FLEETS,
            {
                "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"model": {"name": model}, "queue": {"timeout": "20s"}},
            },
        )
        for pod, ceiling in ceilings.items():
            replica = await self.cluster.add_replica(f"ns.{name}", pod, ceiling)
            labels = {
                "app.kubernetes.io/managed-by": "neuronfleet",
                "app.kubernetes.io/component": "replica",
                "neuronfleet.dev/fleet": name,
                "neuronfleet.dev/ceiling": str(ceiling),
            }
            endpoint = {
                "addresses": ["127.0.0.1"],
                "conditions": {"ready": True, "terminating": False},
                "targetRef": {"name": pod},
            }
            await self.api.put(
                SLICES.format("ns"),
                {
                    "metadata": {"name": f"{pod}-1", "labels": labels},
                    "endpoints": [endpoint],
                    "ports": [{"name": "http", "port": replica.port}],
                },
            )

    def run(self, pod: str) -> None:
        settings = {
            "service": "gw",
            "directory": str(self.directory / pod[-1]),
            "bindHost": HOSTS[pod],
            "port": self.cluster.settings["port"],
            "agentPort": self.cluster.settings["agent_port"],
            "queues": {"firstPort": 21000, "lastPort": 29999},
            "mostFleets": 8,
            "leaveDelay": "300ms",
        }
        path = self.directory / f"{pod}.yaml"
        path.write_text(yaml.safe_dump(settings))
        environment = {
            **os.environ,
            "POD_NAME": pod,
            "POD_IP": HOSTS[pod],
            "POD_NAMESPACE": "gw",
            "KUBECONFIG": str(self.directory / "kubeconfig"),
        }
        environment.pop("KUBERNETES_SERVICE_HOST", None)
        with (self.directory / f"{pod}.log").open("ab") as log:
            self.processes[pod] = subprocess.Popen(
                [sys.executable, "-m", MODULE, "--settings", str(path)],
                env=environment,
                stdout=log,
                stderr=log,
            )

    async def end(self, pod: str, number: int) -> int:
        process = self.processes.pop(pod)
        process.send_signal(number)
        return await asyncio.to_thread(process.wait, 30)

    def holder(self) -> str | None:
        leases = self.api.objects.get("/apis/coordination.k8s.io/v1/namespaces/gw/leases", {})
        for lease in leases.values():
            holder: str | None = lease["spec"].get("holderIdentity")
            return holder
        return None

    async def close(self) -> None:
        for pod in list(self.processes):
            await self.end(pod, signal.SIGKILL)
        await self.api.stop()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }


@pytest.fixture
async def pods(short_path: Path, cluster: Any) -> AsyncIterator[Pods]:
    made = Pods(short_path, cluster)
    await made.start()
    yield made
    await made.close()
    for log in short_path.glob("gw-*.log"):
        print(log.name, log.read_text()[-4000:])


async def test_a_killed_gateway_costs_its_own_streams_and_the_standby_serves_within_5_s(
    pods: Pods, cluster: Any
) -> None:
    await pods.add_fleet("llama", "m1", {"r1": 2, "r2": 2})
    pods.run("gw-a")
    await cluster.until_serves("gw-a", "m1")
    pods.run("gw-b")
    await cluster.until_serves("gw-b", "m1")
    assert pods.holder() == "gw-a"
    # Two streams through the pod that dies, and two through its queue from the other's router.
    cut = [
        asyncio.create_task(cluster.ask(pod, "m1", events=400, seconds=0.05))
        for pod in ("gw-a", "gw-b")
        for _ in range(2)
    ]
    await cluster.until(lambda: sum(r.now for r in cluster.replicas.values()) == 4)
    waits = asyncio.create_task(cluster.ask("gw-b", "m1"))
    await asyncio.sleep(0.3)

    await pods.end("gw-a", signal.SIGKILL)
    killed = time.monotonic()
    status, text = await cluster.ask("gw-b", "m1")
    took = time.monotonic() - killed

    assert (status, "[DONE]" in text) == (200, True)
    assert took < 5.0
    print(f"takeover took {took:.2f} s")
    assert (await waits)[0] == 200, "who only waited is served by the successor"
    for result in await asyncio.gather(*cut, return_exceptions=True):
        assert isinstance(result, aiohttp.ClientError)
    assert all(replica.most <= 2 for replica in cluster.replicas.values())


async def test_a_planned_handover_between_processes_breaks_nothing_and_ends_cleanly(
    pods: Pods, cluster: Any
) -> None:
    await pods.add_fleet("llama", "m1", {"r1": 2, "r2": 2})
    pods.run("gw-a")
    await cluster.until_serves("gw-a", "m1")
    pods.run("gw-b")
    await cluster.until_serves("gw-b", "m1")
    streams = [
        asyncio.create_task(cluster.ask(pod, "m1", events=20, seconds=0.05))
        for pod in ("gw-a", "gw-b")
        for _ in range(4)
    ]
    await cluster.until(lambda: sum(r.now for r in cluster.replicas.values()) == 4)

    ending = asyncio.create_task(pods.end("gw-a", signal.SIGTERM))
    began = time.monotonic()
    longest = 0.0
    while not ending.done():
        asked = time.monotonic()
        assert (await cluster.ask("gw-b", "m1"))[0] == 200
        longest = max(longest, time.monotonic() - asked)

    assert await ending == 0
    print(f"left in {time.monotonic() - began:.1f} s, longest request {longest:.2f} s")
    assert all("[DONE]" in text for _, text in await asyncio.gather(*streams))
    assert pods.holder() == "gw-b"
    assert all(replica.most <= 2 for replica in cluster.replicas.values())


async def test_while_the_api_server_is_away_traffic_and_queues_stay_where_they_are(
    pods: Pods, cluster: Any
) -> None:
    await pods.add_fleet("llama", "m1", {"r1": 1})
    pods.run("gw-a")
    await cluster.until_serves("gw-a", "m1")
    pods.run("gw-b")
    await cluster.until_serves("gw-b", "m1")
    stream = asyncio.create_task(cluster.ask("gw-b", "m1", events=60, seconds=0.1))
    waits = asyncio.create_task(cluster.ask("gw-a", "m1"))

    await pods.api.go_down()
    await asyncio.sleep(5.0)
    _, text = await cluster.get("gw-a", "/metrics")
    assert "neuronfleet_gateway_active 1" in text
    pods.api.down = False

    assert "[DONE]" in (await stream)[1]
    assert (await waits)[0] == 200
    assert cluster.replicas["r1"].most == 1


async def test_a_killed_pod_that_starts_again_serves_again(pods: Pods, cluster: Any) -> None:
    await pods.add_fleet("llama", "m1", {"r1": 1})
    pods.run("gw-a")
    await cluster.until_serves("gw-a", "m1")

    await pods.end("gw-a", signal.SIGKILL)
    pods.run("gw-a")

    await cluster.until_serves("gw-a", "m1")
