"""1,000 fleets: what the controller costs, how fast it decides, how it restarts.

    python benchmarks/cluster/scale.py [--replicas 1000 3000 10000 30000] [--decisions 40]

Replicas are pods on kwok nodes of a real API server, loads are made up, and everything that is
printed is measured of the real controller process. The bars hold at 10,000 replicas.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from fake_prometheus import FakePrometheus, nothing
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient
from prometheus_client.parser import text_string_to_metric_families

from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.kube import Kube
from neuronfleet.serving.controller.memory import FleetMemory
from neuronfleet.serving.planner.observation import Origin, Sample
from tests.cluster.cluster import Cluster, open_cluster
from tests.cluster.kwok import FAKE, fake_node

MODULE = "neuronfleet.serving.controller"
FLEETS = 1_000
BARRED = 10_000
"""Replicas at which the bars hold."""
NAMESPACE = "scale"
SLOTS = 4
INTERVAL_S = 15.0
BARS = {"p99_ms": 250.0, "cores": 0.5, "rss_mib": 350.0, "calls": 2.0, "restart_s": 30.0}
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One size's figures."""

    replicas: int
    cores: float
    rss_mib: float
    round_ms: float
    p50_ms: float
    p99_ms: float
    calls: float
    restart_s: float


def fleet(number: int, replicas: int) -> dict[str, Any]:
    """A fleet of inf2 replicas that may run on fake nodes."""
    taint = {"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {"name": f"f{number}", "namespace": NAMESPACE},
        "spec": {
            "model": {
                "name": f"model-{number}",
                "source": {"huggingFace": "a/b"},
                "architecture": "llama-3.1-8b",
            },
            "variants": [
                {
                    "name": "inf2",
                    "instanceType": "inf2.xlarge",
                    "backendGeneration": 1,
                    "tensorParallelDegree": 2,
                    "maxModelLen": 2048,
                    "maxNumSeqs": SLOTS,
                    "podTemplate": {
                        "spec": {"nodeSelector": {"type": "kwok"}, "tolerations": [taint]}
                    },
                }
            ],
            "objective": {"ttftMs": 3000, "tpotMs": 80},
            "traffic": {
                "open": {"requestsPerSecond": 0.2},
                "inputTokens": 200,
                "outputTokens": 60,
            },
            "scaling": {"minReplicas": replicas, "maxReplicas": replicas + 50},
        },
    }


class Process:
    """The controller as a child of the benchmark."""

    def __init__(self, directory: Path, prometheus: int, kubeconfig: Path) -> None:
        self._log = (directory / "controller.log").open("ab")
        self._settings = directory / "controller.yaml"
        self._port = 18_900
        self._kubeconfig = kubeconfig
        document = {
            "prometheus": {"url": f"http://127.0.0.1:{prometheus}"},
            "lease": {"namespace": NAMESPACE},
            "interval": f"{INTERVAL_S}s",
            "httpPort": self._port,
            "httpHost": "127.0.0.1",
            "workloads": {
                "images": {"generation1": "neuronfleet.local/none:1"},
                "gateway": {"namespace": NAMESPACE, "labels": {"a": "gateway"}},
                "requestShare": 0,
            },
        }
        self._settings.write_text(yaml.safe_dump(document))
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self.child = subprocess.Popen(
            [sys.executable, "-m", MODULE, "--settings", str(self._settings)],
            env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
            stdout=self._log,
            stderr=self._log,
        )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it by its pid."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(how)
            self.child.wait(30)

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        assert self.child is not None
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def rss_mib(self) -> float:
        """Resident memory, its worker process for tables included."""
        assert self.child is not None
        family = [self.child.pid, *_children(self.child.pid)]
        return sum(_rss_kib(pid) for pid in family) / 1024

    async def metrics(self, session: aiohttp.ClientSession) -> dict[str, float]:
        """Sums of its metrics by sample name; empty while it does not answer."""
        try:
            async with session.get(f"http://127.0.0.1:{self._port}/metrics") as answer:
                text = await answer.text()
        except aiohttp.ClientError:
            return {}
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                if labels.get("kind") not in ("Lease", "Event"):
                    sums[name] = sums.get(name, 0.0) + value
        return sums


def window_mib() -> float:
    """What a full window of samples takes: kwok replicas boot too fast to fill one.

    Two boots of 900 s at the interval, 10 replicas a fleet.
    """
    tracemalloc.start()
    rng, names = random.Random(1), [f"replica-{number}" for number in range(10)]
    memories = [
        FleetMemory(uid=str(number), watched_since_s=0.0, status=FleetStatus())
        for number in range(FLEETS)
    ]
    before, _ = tracemalloc.get_traced_memory()
    for number in range(round(2 * 900 / INTERVAL_S)):
        for memory in memories:
            held = {name: float(rng.randrange(SLOTS)) for name in names}
            sample = Sample(
                at_s=INTERVAL_S * number,
                origin=Origin.METRICS,
                in_flight=held,
                queued=rng.random(),
                refused_per_s=rng.random(),
                arrivals_per_s=rng.random(),
                prompt_tokens=rng.random(),
                output_tokens=rng.random(),
                seconds_per_request=rng.random(),
            )
            memory.take(sample, names)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 2**20


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in path.read_text().split()] if path.exists() else []


def _rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


class Bench:
    """One run over growing sizes."""

    def __init__(self, cluster: Cluster, kube: Kube, client: ApiClient, directory: Path) -> None:
        self.cluster, self.kube, self.client = cluster, kube, client
        self.prometheus = FakePrometheus()
        self.directory = directory
        self.writes: list[tuple[float, str, int]] = []
        """When a Deployment's count was seen to change: Unix seconds, name, replicas."""

    async def size(self, process: Process, replicas: int, decisions: int) -> Measured:
        """Bring all fleets to a size and measure."""
        each = replicas // FLEETS
        begun = time.time()
        await self._apply_fleets(each)
        await self._nodes(replicas)
        if process.child is None:
            process.start()
        await self._wait_ready(replicas)
        print(f"# {replicas} replicas run, {time.time() - begun:.0f} s", file=sys.stderr)
        await self._learn_pods()
        async with aiohttp.ClientSession() as session:
            await self._calm(process, session)
            cores, rss, round_ms = await self._steady(process, session)
            lags, calls = await self._decide(process, session, each, decisions)
            restart = await self._restart(process, session)
        return Measured(
            replicas=replicas,
            cores=cores,
            rss_mib=rss,
            round_ms=round_ms,
            p50_ms=1000 * statistics.median(lags),
            p99_ms=1000 * sorted(lags)[min(len(lags) - 1, int(0.99 * len(lags)))],
            calls=calls,
            restart_s=restart,
        )

    async def _apply_fleets(self, each: int) -> None:
        gate = asyncio.Semaphore(16)

        async def one(number: int) -> None:
            async with gate:
                await self.kube.apply(NAMESPACE, fleet(number, each))

        await asyncio.gather(*(one(number) for number in range(FLEETS)))
        for number in range(FLEETS):
            self.prometheus.loads[f"{NAMESPACE}.f{number}"] = each * SLOTS * 0.4

    async def _nodes(self, replicas: int) -> None:
        labels = {
            "node.kubernetes.io/instance-type": "inf2.xlarge",
            "karpenter.sh/capacity-type": "on-demand",
            "topology.kubernetes.io/zone": "us-east-2a",
        }
        wanted = replicas // 200 + 5
        made = [
            fake_node(f"scale-{number}", labels=labels, capacity={"aws.amazon.com/neuron": "240"})
            for number in range(wanted)
        ]
        for start in range(0, wanted, 50):
            await asyncio.to_thread(self.cluster.apply, *made[start : start + 50])

    async def _wait_ready(self, replicas: int) -> None:
        last, since = -1, time.time()
        while True:
            counts = await self._serving()
            if sum(counts.values()) >= replicas:
                return
            if sum(counts.values()) != last:
                last, since = sum(counts.values()), time.time()
            if time.time() - since > 300:
                raise SystemExit(f"{last} of {replicas} replicas run, and no more for 300 s")
            await asyncio.sleep(5)

    async def _serving(self) -> dict[str, int]:
        fleets = await self._list(
            f"/apis/neuronfleet.dev/v1alpha1/namespaces/{NAMESPACE}", "servingfleets"
        )
        return {f["metadata"]["name"]: f.get("status", {}).get("serving", 0) for f in fleets}

    async def _list(self, base: str, plural: str) -> list[dict[str, Any]]:
        text = await self.kube._call("GET", f"{base}/{plural}", None, plural, query={})
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    async def _learn_pods(self) -> None:
        pods = await self._list(f"/api/v1/namespaces/{NAMESPACE}", "pods")
        found: dict[str, list[str]] = {}
        for body in pods:
            if body["metadata"].get("deletionTimestamp") is None:
                name = body["metadata"]["labels"].get(records.FLEET_LABEL, "")
                found.setdefault(f"{NAMESPACE}.{name}", []).append(body["metadata"]["name"])
        self.prometheus.pods = found

    async def _calm(self, process: Process, session: aiohttp.ClientSession) -> None:
        """Until a whole interval has passed without a write."""
        last = -1.0
        for _ in range(60):
            calls = (await process.metrics(session)).get(
                "neuronfleet_controller_api_calls_total", 0
            )
            if calls == last:
                return
            last = calls
            await asyncio.sleep(1.2 * INTERVAL_S)
        raise SystemExit("the controller does not come to rest")

    async def _steady(
        self, process: Process, session: aiohttp.ClientSession
    ) -> tuple[float, float, float]:
        before, cpu, at = await process.metrics(session), process.cpu_s(), time.time()
        await asyncio.sleep(4 * INTERVAL_S)
        after = await process.metrics(session)
        cores = (process.cpu_s() - cpu) / (time.time() - at)
        name = "neuronfleet_controller_tick_seconds"
        rounds = after[f"{name}_count"] - before[f"{name}_count"]
        seconds = after[f"{name}_sum"] - before[f"{name}_sum"]
        return cores, process.rss_mib(), 1000 * seconds / rounds

    async def _decide(
        self, process: Process, session: aiohttp.ClientSession, each: int, decisions: int
    ) -> tuple[list[float], float]:
        """One fleet's load jumps at each query; how long until its Deployment is written."""
        watching = asyncio.create_task(self._watch_deployments())
        await asyncio.sleep(1)
        rng = random.Random(7)
        lags: list[float] = []
        calls: list[float] = []
        victims = rng.sample(range(FLEETS), decisions)
        try:
            for number in victims:
                before = await process.metrics(session)
                lags.append(await self._one_decision(number, each))
                # Its status follows at once; that of the replicas as they come up is another fact.
                await asyncio.sleep(0.1)
                after = await process.metrics(session)
                name = "neuronfleet_controller_api_calls_total"
                calls.append(after[name] - before[name])
                await asyncio.sleep(4)
        finally:
            watching.cancel()
        return lags, statistics.median(calls)

    async def _one_decision(self, number: int, each: int) -> float:
        key, seen = f"{NAMESPACE}.f{number}", len(self.writes)
        load = each * SLOTS + 1.0
        asked = self.prometheus.queries
        self.prometheus.on_query = lambda: self.prometheus.loads.update({key: load})
        while self.prometheus.queries == asked:  # noqa: ASYNC110 - the answer's time is wanted
            await asyncio.sleep(0.01)
        answered = self.prometheus.answered_s
        self.prometheus.on_query = nothing
        deadline = time.time() + 10
        while time.time() < deadline:
            for at, name, _ in self.writes[seen:]:
                if name.startswith(f"f{number}-"):
                    return at - answered
            await asyncio.sleep(0.005)
        raise SystemExit(f"fleet f{number} was not scaled within 10 s")

    async def _watch_deployments(self) -> None:
        """Note every change of a count as it is told by a watch."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        known = {
            body["metadata"]["name"]: body["spec"]["replicas"]
            for body in await self._list(f"/apis/apps/v1/namespaces/{NAMESPACE}", "deployments")
        }
        prepared = await self.client.param_serialize(
            method="GET", resource_path=path, query_params=[("watch", "true")],
            header_params={"Accept": "application/json"}, auth_settings=["BearerToken"],
        )  # fmt: skip
        answer = await self.client.call_api(*prepared, _request_timeout=86_400)
        async for line in answer.response.content:
            body = json.loads(line)["object"]
            name, count = body["metadata"]["name"], body["spec"]["replicas"]
            if known.get(name, count) != count:
                self.writes.append((time.time(), name, count))
            known[name] = count

    async def _restart(self, process: Process, session: aiohttp.ClientSession) -> float:
        """Killed; seconds from the start of the next one to its first whole round."""
        process.stop(signal.SIGKILL)
        await asyncio.sleep(6)  # its Lease ends
        begun = time.time()
        process.start()
        while time.time() - begun < 120:
            found = await process.metrics(session)
            if found.get("neuronfleet_controller_tick_seconds_count", 0) >= 1:
                return time.time() - begun
            await asyncio.sleep(0.2)
        raise SystemExit("no round within 120 s of a restart")


async def run(sizes: Sequence[int], decisions: int, directory: Path) -> list[Measured]:
    """Measure every size, smallest first; the cluster is cleaned in any case."""
    cluster = await asyncio.to_thread(open_cluster)
    crd = Path("serving/crds/servingfleets.neuronfleet.dev.yaml")
    await asyncio.to_thread(cluster.kubectl, "apply", "--server-side", "-f", str(crd))
    await config.load_kube_config(config_file=str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
    client = ApiClient()
    kube = Kube(client, count=lambda *_: None, rng=random.Random(1))
    await asyncio.to_thread(cluster.kubectl, "create", "namespace", NAMESPACE)
    bench = Bench(cluster, kube, client, directory)
    process = Process(directory, await bench.prometheus.start(), cluster.kubeconfig)
    found = []
    try:
        for size in sorted(sizes):
            asked = decisions if size == BARRED else max(1, decisions // 5)
            found.append(await bench.size(process, size, asked))
            print(found[-1], flush=True)
    finally:
        process.stop()
        await bench.prometheus.stop()
        await client.close()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(_clean, cluster)
    return found


def _clean(cluster: Cluster) -> None:
    cluster.kubectl("delete", "servingfleets", "--all", "-n", NAMESPACE, "--wait=false")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=900s", timeout_s=930)
    cluster.kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")


def main() -> None:
    """Print a table; exit status 1 where the size of 10,000 misses a bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000])
    parser.add_argument(
        "--decisions", type=int, default=40, help="at 10,000 replicas; a fifth at other sizes"
    )
    parser.add_argument("--directory", type=Path, default=Path("/tmp"))
    arguments = parser.parse_args()
    found = asyncio.run(run(arguments.replicas, arguments.decisions, arguments.directory))
    print(f"\n{FLEETS} fleets, one query every {INTERVAL_S:g} s, replicas on kwok nodes")
    print("replicas  cores  RSS MiB  round ms  decision p50 ms  p99 ms  calls  restart s")
    missed, window = [], window_mib()
    for one in found:
        print(
            f"{one.replicas:8d}  {one.cores:5.3f}  {one.rss_mib:7.0f}  {one.round_ms:8.0f}"
            f"  {one.p50_ms:15.0f}  {one.p99_ms:6.0f}  {one.calls:5.1f}  {one.restart_s:9.1f}"
        )
        if one.replicas == BARRED:
            full = replace(one, rss_mib=one.rss_mib + window)
            missed = [name for name, bar in BARS.items() if getattr(full, name) > bar]
    print("Calls are those of a decision: Lease renewals and Events apart.")
    print(f"A full window of samples (two boots of 900 s) adds {window:.0f} MiB to the RSS.")
    if missed:
        sys.exit(f"missed at 10,000 replicas: {', '.join(missed)}")


if __name__ == "__main__":
    main()
