"""The cluster as the watches tell it: records by fleet, and which fleets changed."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.records import (
    APPLIED_ANNOTATION,
    FLEET_LABEL,
    MANAGED_LABEL,
    MANAGER,
    Body,
    DeploymentRecord,
    FleetRecord,
    NodeRecord,
    PodRecord,
    fleet_key,
)

K = TypeVar("K")
V = TypeVar("V")

CHILD_KINDS = ("Service", "PodDisruptionBudget", "NetworkPolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRecord:
    """An object of ours of which only the manifest matters."""

    kind: str
    name: str
    uid: str
    applied: str | None


class Store:
    """Records by fleet key; `changed` holds the keys that something happened to."""

    def __init__(self) -> None:
        self.fleets: dict[str, FleetRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.pods: dict[str, dict[str, PodRecord]] = defaultdict(dict)
        self.deployments: dict[str, dict[str, DeploymentRecord]] = defaultdict(dict)
        self.children: dict[str, dict[tuple[str, str], ChildRecord]] = defaultdict(dict)
        self.changed: set[str] = set()
        self.woken = asyncio.Event()

    def see(self, kind: str, body: Body, *, gone: bool) -> None:
        """Take in one event of a watch."""
        if kind == "Node":
            self._see_node(body, gone=gone)
        elif kind == "ServingFleet":
            self._see_fleet(body, gone=gone)
        elif (key := _owner_key(body)) is not None:
            self._see_child(kind, key, body, gone=gone)

    def keep_only(self, kind: str, uids: set[str]) -> None:
        """Forget objects whose deletion the watch missed, as after a long disconnection."""
        for shelf in (self.pods, self.deployments, self.children):
            for key, found in shelf.items():
                stale = [name for name, one in found.items() if _is(one, kind, uids)]
                for name in stale:
                    del found[name]  # type: ignore[arg-type]
                    self._wake(key)
        for key in [
            k for k, f in self.fleets.items() if kind == "ServingFleet" and f.uid not in uids
        ]:
            del self.fleets[key]
            self._wake(key)

    def wake_all(self) -> None:
        """Have every fleet looked at again."""
        self.changed |= set(self.fleets)
        self.woken.set()

    def applied(self, key: str) -> Mapping[tuple[str, str], str | None]:
        """Digests of a fleet's objects that exist."""
        return {name: one.applied for name, one in self.children[key].items()}

    def _see_node(self, body: Body, *, gone: bool) -> None:
        record = records.node(body)
        before = self.nodes.get(record.name)
        if gone:
            self.nodes.pop(record.name, None)
        else:
            self.nodes[record.name] = record
        if gone or before != record:
            for key, pods in self.pods.items():
                if any(pod.node == record.name for pod in pods.values()):
                    self._wake(key)

    def _see_fleet(self, body: Body, *, gone: bool) -> None:
        record = records.fleet(body)
        before = self.fleets.get(record.key)
        if gone:
            self.fleets.pop(record.key, None)
        else:
            self.fleets[record.key] = record
        # Our own status patch comes back as an event too, and changes nothing that we decide on.
        spec = None if before is None else (before.generation, before.restarted_at, before.deleted)
        if gone or spec != (record.generation, record.restarted_at, record.deleted):
            self._wake(record.key)

    def _see_child(self, kind: str, key: str, body: Body, *, gone: bool) -> None:
        name = body["metadata"]["name"]
        if kind == "Pod":
            self._put(self.pods[key], name, None if gone else records.pod(body), key)
        elif kind == "Deployment":
            self._put(self.deployments[key], name, None if gone else records.deployment(body), key)
        else:
            child = ChildRecord(
                kind=kind,
                name=name,
                uid=body["metadata"]["uid"],
                applied=(body["metadata"].get("annotations") or {}).get(APPLIED_ANNOTATION),
            )
            self._put(self.children[key], (kind, name), None if gone else child, key)

    def _put(self, shelf: dict[K, V], name: K, record: V | None, key: str) -> None:
        if shelf.get(name) == record:
            return
        if record is None:
            del shelf[name]
        else:
            shelf[name] = record
        self._wake(key)

    def _wake(self, key: str) -> None:
        self.changed.add(key)
        self.woken.set()


def _owner_key(body: Body) -> str | None:
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_LABEL) != MANAGER or FLEET_LABEL not in labels:
        return None
    return fleet_key(metadata["namespace"], labels[FLEET_LABEL])


def _is(record: PodRecord | DeploymentRecord | ChildRecord, kind: str, uids: set[str]) -> bool:
    own = (
        record.kind
        if isinstance(record, ChildRecord)
        else "Pod"
        if isinstance(record, PodRecord)
        else "Deployment"
    )
    return own == kind and record.uid not in uids
