"""A small cluster in memory and virtual time: Deployments make pods, pods boot, nodes come and go.

It acts as the API server (it takes the controller's acts), as the Deployment and ReplicaSet
controllers, as the scheduler and as the kubelet, each in its simplest form.
"""

import itertools
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from neuronfleet.serving.api import prices
from neuronfleet.serving.controller.acts import (
    Act,
    Annotate,
    Apply,
    Cordon,
    Delete,
    DeletePod,
    Scale,
)
from neuronfleet.serving.controller.exporter import Exporter
from neuronfleet.serving.controller.gather import Gatherer
from neuronfleet.serving.controller.kube import KubeError
from neuronfleet.serving.controller.loop import ControlLoop, Hook, no_hook
from neuronfleet.serving.controller.settings import ControllerSettings
from neuronfleet.serving.controller.source import SCRAPED_AT, Reading, SourceError
from neuronfleet.serving.controller.store import CHILD_KINDS, Store
from neuronfleet.serving.controller.tables import Tables
from neuronfleet.serving.controller.view import Patience
from neuronfleet.serving.controller.workloads import WorkloadSettings
from neuronfleet.serving.planner.prepare import NO_TABLE

START = 1_800_000_000.0
_CANARY_S = 2.0
"""From the startup probe to the first readiness probe."""
NAMESPACE = "serving"


def fleet_body(name: str = "f", generation: int = 1, **spec: Any) -> dict[str, Any]:
    """A ServingFleet as the API server gives it: inf2 replicas with 4 slots each."""
    base: dict[str, Any] = {
        "model": {
            "name": f"model-{name}",
            "source": {"huggingFace": "a/b"},
            "architecture": "llama-3.1-8b",
        },
        "variants": [variant()],
        "objective": {"ttftMs": 3000, "tpotMs": 80},
        "traffic": {
            "open": {"requestsPerSecond": 0.2},
            "inputTokens": 200,
            "outputTokens": 60,
        },
        "scaling": {"minReplicas": 1, "maxReplicas": 4},
        "drain": {"timeout": "60s"},
        "metrics": {"maxAge": "60s"},
    }
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "generation": generation,
            "creationTimestamp": stamp(START),
        },
        "spec": {key: value for key, value in (base | spec).items() if value is not None},
    }


def variant(name: str = "inf2", **more: Any) -> dict[str, Any]:
    """One variant of 4 slots."""
    base = {
        "name": name,
        "instanceType": "inf2.xlarge",
        "tensorParallelDegree": 2,
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
    }
    return base | more


def stamp(now: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True, kw_only=True)
class Pod:
    """One pod of the world."""

    body: dict[str, Any]
    born_s: float
    node: str | None = None
    placed_s: float = 0.0
    boots_in_s: float = 0.0
    dies_at_s: float | None = None
    streams: int = 0
    broken: str | None = None
    """`crash` (restarts before it serves), `canary` (fails after it served), `image`."""


@dataclass(slots=True, kw_only=True)
class World:
    """The cluster. `advance` moves time; everything else happens at the present."""

    boot_s: float = 30.0
    drain_s: float = 5.0
    now: float = START
    capacity: dict[str, int] = field(default_factory=dict)
    """Most pods of a variant that find a node; unlimited where absent."""
    bad_revisions: dict[str, str] = field(default_factory=dict)
    """How pods of a revision are broken."""
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    fleets: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """Every write, in order."""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    load: float = 0.0
    source: str = "ok"
    """`ok`, `away`, `frozen` (samples grow old) or `empty`."""
    failing: list[int] = field(default_factory=list)
    """Statuses with which the next writes fail."""
    numbers: Any = field(default_factory=itertools.count)
    frozen_at: float = START

    # The API server, as the controller's `Kube` has it.

    async def perform(self, namespace: str, act: Act) -> None:
        """Carry out one act."""
        self._may_fail()
        match act:
            case Apply(manifest=manifest):
                self._apply(dict(manifest))
            case Scale(name=name, replicas=replicas):
                self.objects["Deployment", name]["spec"]["replicas"] = replicas
                self.log.append(f"scale {name} {replicas}")
            case Annotate(pod=name, annotations=annotations):
                if name in self.pods:
                    notes = self.pods[name].body["metadata"].setdefault("annotations", {})
                    for key, value in annotations.items():
                        if value is None:
                            notes.pop(key, None)
                        else:
                            notes[key] = value
                    self.log.append(f"annotate {name} {dict(annotations)}")
            case DeletePod(pod=name):
                self.log.append(f"delete pod {name}")
                self.end(name)
            case Cordon(node=name):
                self.nodes[name]["spec"]["unschedulable"] = True
                self.log.append(f"cordon {name}")
            case Delete(kind=kind, name=name):
                self.objects.pop((kind, name), None)
                self.log.append(f"delete {kind} {name}")

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        """Merge into a fleet's status."""
        self._may_fail()
        self.log.append(f"status {name}")
        _merge(self.fleets[name].setdefault("status", {}), status)

    async def post_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Keep an Event."""
        self.events.append(dict(event))

    def _may_fail(self) -> None:
        if self.failing:
            status = self.failing.pop(0)
            if status:
                raise KubeError(f"refused with {status}", status)

    def _apply(self, manifest: dict[str, Any]) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        before = self.objects.get(key)
        metadata = {**manifest["metadata"], "uid": f"uid-{key[0]}-{key[1]}"}
        metadata["generation"] = 1 if before is None else before["metadata"]["generation"] + 1
        metadata["creationTimestamp"] = (
            stamp(self.now) if before is None else before["metadata"]["creationTimestamp"]
        )
        self.objects[key] = {**manifest, "metadata": metadata}
        self.log.append(f"apply {key[0]} {key[1]} {manifest.get('spec', {}).get('replicas', '')}")

    # The rest of the cluster.

    def advance(self, seconds: float) -> None:
        """Let time pass in steps of a second."""
        for _ in range(round(seconds)):
            self.now += 1.0
            self._run_deployments()
            self._run_kubelets()

    def _run_deployments(self) -> None:
        for (kind, name), body in list(self.objects.items()):
            if kind != "Deployment":
                continue
            mine = [p for p in self.pods.values() if p.dies_at_s is None and _owner(p) == name]
            wanted = body["spec"].get("replicas", 1)
            for _ in range(wanted - len(mine)):
                self._make_pod(name, body)
            # As the ReplicaSet controller ranks: not ready first, then by cost, youngest first.
            ranked = sorted(mine, key=lambda p: (self.ready(p), _cost(p), -p.born_s))
            for pod in ranked[: max(0, len(mine) - wanted)]:
                self.end(pod.body["metadata"]["name"])
        kept = {name for kind, name in self.objects if kind == "Deployment"}
        for pod in list(self.pods.values()):
            if _owner(pod) not in kept and pod.dies_at_s is None:
                self.end(pod.body["metadata"]["name"])

    def _make_pod(self, deployment: str, body: dict[str, Any]) -> None:
        name = f"{deployment}-{next(self.numbers)}"
        template = body["spec"]["template"]["metadata"]
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(self.now),
            "labels": dict(template["labels"]),
            "annotations": dict(template.get("annotations", {})),
            "owner": deployment,
        }
        labels = template["labels"]
        revision = labels["neuronfleet.dev/revision"]
        pod = Pod(
            body={"metadata": metadata, "spec": {}},
            born_s=self.now,
            boots_in_s=self.boot_s,
            broken=self.bad_revisions.get(revision),
        )
        self.pods[name] = pod
        self._place(pod, labels["neuronfleet.dev/variant"])

    def _place(self, pod: Pod, variant_name: str) -> None:
        placed = [
            p
            for p in self.pods.values()
            if p.node and p.body["metadata"]["labels"]["neuronfleet.dev/variant"] == variant_name
        ]
        if len(placed) < self.capacity.get(variant_name, 10_000):
            pod.node, pod.placed_s = f"node-{pod.body['metadata']['name']}", self.now
            self.node(pod.node)

    def _run_kubelets(self) -> None:
        for pod in self.pods.values():
            if pod.node is None and pod.dies_at_s is None:
                self._place(pod, pod.body["metadata"]["labels"]["neuronfleet.dev/variant"])
        for name, pod in list(self.pods.items()):
            if pod.dies_at_s is not None and self.now >= pod.dies_at_s:
                del self.pods[name]

    def node(self, name: str, **changes: Any) -> None:
        """Make or change a node: ready=, cordoned=, taint=, health=."""
        body = self.nodes.setdefault(
            name,
            {
                "metadata": {"name": name, "uid": f"uid-{name}"},
                "spec": {},
                "status": {"conditions": []},
            },
        )
        ready = "True" if changes.get("ready", True) else "False"
        before: dict[str, str] = next(
            (c for c in body["status"]["conditions"] if c["type"] == "Ready"), {}
        )
        since = before.get("lastTransitionTime") if before.get("status") == ready else None
        conditions = [
            {"type": "Ready", "status": ready, "lastTransitionTime": since or stamp(self.now)}
        ]
        if "health" in changes:
            conditions.append(
                {"type": "NeuronHealth", "status": "True", "reason": changes["health"]}
            )
        body["status"]["conditions"] = conditions
        body["spec"]["unschedulable"] = bool(changes.get("cordoned"))
        if "taint" in changes:
            body["spec"]["taints"] = [{"key": changes["taint"]}]

    def end(self, name: str) -> None:
        """Begin a pod's deletion."""
        pod = self.pods.get(name)
        if pod is not None and pod.dies_at_s is None:
            pod.dies_at_s = self.now + (self.drain_s if self.ready(pod) else 0.0)

    def ready(self, pod: Pod) -> bool:
        """Whether it answers its canary."""
        return self._booted(pod) and pod.broken is None

    def _booted(self, pod: Pod, ahead_s: float = 0.0) -> bool:
        return pod.node is not None and self.now - pod.placed_s >= pod.boots_in_s - ahead_s

    def serving(self) -> list[str]:
        """Names of ready pods that are not leaving."""
        return [n for n, p in self.pods.items() if self.ready(p) and p.dies_at_s is None]

    def replicas(self) -> dict[str, int]:
        """Replicas asked for, by Deployment."""
        return {
            name: body["spec"].get("replicas", 1)
            for (kind, name), body in self.objects.items()
            if kind == "Deployment"
        }

    # What the controller sees.

    def feed(self, store: Store) -> None:
        """Bring a store up to date, as its watches would."""
        for body in self.fleets.values():
            store.see("ServingFleet", body, gone=False)
        for body in self.nodes.values():
            store.see("Node", body, gone=False)
        for (kind, _), body in self.objects.items():
            store.see(kind, body, gone=False)
        for pod in self.pods.values():
            store.see("Pod", self.pod_body(pod), gone=False)
        there = [*self.fleets.values(), *self.nodes.values(), *self.objects.values()]
        uids = {body["metadata"]["uid"] for body in there}
        uids |= {pod.body["metadata"]["uid"] for pod in self.pods.values()}
        kinds = ("ServingFleet", "Node", "Pod", "Deployment", *CHILD_KINDS)
        store.forget(set().union(*(store.uids(kind) for kind in kinds)) - uids)

    def pod_body(self, pod: Pod) -> dict[str, Any]:
        """A pod with its status at this moment."""
        ready = self.ready(pod)
        since = min(self.now, pod.placed_s + pod.boots_in_s) if ready else pod.born_s
        state: dict[str, Any] = {"running": {"startedAt": stamp(pod.born_s)}}
        started = pod.broken is None and self._booted(pod, ahead_s=_CANARY_S)
        restarts = 0
        if pod.broken == "crash":
            restarts = int((self.now - pod.born_s) // 10)
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
        elif pod.broken == "image":
            state = {"waiting": {"reason": "ImagePullBackOff"}}
        elif pod.broken == "canary":
            started = True
        conditions = [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": stamp(since),
            }
        ]
        if pod.node is not None:
            placed = {"type": "PodScheduled", "status": "True"}
            conditions.append(placed | {"lastTransitionTime": stamp(pod.placed_s)})
        else:
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available: 3 Insufficient aws.amazon.com/neuron.",
                }
            )
        metadata = dict(pod.body["metadata"])
        if pod.dies_at_s is not None:
            metadata["deletionTimestamp"] = stamp(self.now)
        container = {"restartCount": restarts, "started": started, "state": state}
        spec = {"nodeName": pod.node} if pod.node else {}
        status = {"conditions": conditions, "containerStatuses": [container]}
        return {"metadata": metadata, "spec": spec, "status": status}

    def spread(self, load: float) -> None:
        """Put `load` sequences on the replicas that serve, the rest waits."""
        self.load = load

    async def ask(self) -> Mapping[str, Reading]:
        """The metrics source."""
        if self.source == "away":
            raise SourceError("no answer")
        if self.source == "empty":
            return {}
        at = self.frozen_at if self.source == "frozen" else self.now
        self.frozen_at = at
        found = {}
        for name in self.fleets:
            serving = [n for n in self.serving() if n.startswith(f"{name}-")]
            held = dict.fromkeys(serving, 0.0)
            left = self.load
            for pod in serving:
                held[pod] = min(4.0, left)
                left -= held[pod]
            recorded = {SCRAPED_AT: at, "fleet:queued:sum": left, "fleet:refused:rate": 0.0}
            found[f"{NAMESPACE}.{name}"] = Reading(recorded=recorded, in_flight=held)
        return found


class Controlled:
    """A world with a controller on it."""

    def __init__(self, world: World, *, after_step: Hook = no_hook) -> None:
        self.world, self.store, self.exporter = world, Store(), Exporter()
        self.settings = settings()
        tables = Tables(prices.newest(), expected_boot_s=world.boot_s, workers=ThreadPoolExecutor)
        # The slots alone staff these fleets: a table takes seconds of simulation.
        tables._table = lambda fleet, index: NO_TABLE  # type: ignore[method-assign]
        self.gatherer = Gatherer(self.settings, self.store, tables)
        self.loop = ControlLoop(
            self.settings,
            self.store,
            self.gatherer,
            world,  # type: ignore[arg-type]  # stands in for Kube
            self.exporter,
            world.ask,
            rng=random.Random(1),
            after_step=after_step,
            now=lambda: world.now,
        )

    async def turn(self, seconds: float = 5.0) -> None:
        """Let time pass, then one round."""
        self.world.advance(seconds)
        self.world.feed(self.store)
        await self.loop.round()
        await self.loop.settled()

    async def turns(self, seconds: float, step: float = 5.0) -> None:
        """Rounds for so long."""
        for _ in range(round(seconds / step)):
            await self.turn(step)

    def status(self, name: str = "f") -> dict[str, Any]:
        """A fleet's stored status."""
        found: dict[str, Any] = self.world.fleets[name].get("status", {})
        return found

    def condition(self, kind: str, name: str = "f") -> dict[str, Any]:
        """One condition of a fleet."""
        found = self.status(name).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})


async def started(world: World, load: float = 6.0, **spec: Any) -> Controlled:
    """A fleet that serves its load."""
    world.fleets["f"] = fleet_body(**spec)
    controlled = Controlled(world)
    await controlled.turns(60)
    world.spread(load)
    await controlled.turns(150)
    return controlled


def settings() -> ControllerSettings:
    """A controller that loses patience within a minute or so."""
    return ControllerSettings(
        prometheus_url="http://127.0.0.1:9",
        lease_namespace="neuronfleet",
        interval_s=5.0,
        expected_boot_s=30.0,
        patience=Patience(capacity_wait_s=30.0, capacity_retry_s=120.0, unready_s=20.0),
        workloads=WorkloadSettings(
            images={1: "gen1:1", 2: "gen2:1"},
            gateway_namespace="neuronfleet",
            gateway_labels={"app.kubernetes.io/component": "gateway"},
        ),
    )


def _owner(pod: Pod) -> str:
    return str(pod.body["metadata"]["owner"])


def _cost(pod: Pod) -> int:
    notes = pod.body["metadata"].get("annotations", {})
    return int(notes.get("controller.kubernetes.io/pod-deletion-cost", 0))


def _merge(target: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
