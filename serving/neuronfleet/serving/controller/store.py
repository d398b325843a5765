"""The cluster as the watches tell it: records by fleet, and which fleets changed."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        self.fleets_version = 0
        """Counts what changed of the fleets themselves."""
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

    def uids(self, kind: str) -> set[str]:
        """The uids of all objects of a kind that are known."""
        if kind == "ServingFleet":
            return {one.uid for one in self.fleets.values()}
        if kind == "Node":
            return {one.uid for one in self.nodes.values()}
        if kind == "Pod":
            return {one.uid for shelf in self.pods.values() for one in shelf.values()}
        if kind == "Deployment":
            return {one.uid for shelf in self.deployments.values() for one in shelf.values()}
        found = [one for shelf in self.children.values() for one in shelf.values()]
        return {one.uid for one in found if one.kind == kind}

    def forget(self, uids: set[str]) -> None:
        """Drop objects whose deletion the watch missed, as after a long disconnection."""
        shelves: tuple[dict[str, dict[Any, Any]], ...] = (
            self.pods,
            self.deployments,
            self.children,
        )
        for shelf in shelves:
            for key, found in shelf.items():
                for name in [name for name, one in found.items() if one.uid in uids]:
                    del found[name]
                    self.wake(key)
        for name in [name for name, one in self.nodes.items() if one.uid in uids]:
            del self.nodes[name]
        for key in [key for key, one in self.fleets.items() if one.uid in uids]:
            del self.fleets[key]
            self.fleets_version += 1
            self.wake(key)

    def tidy(self, key: str) -> None:
        """Keep nothing of a fleet that is gone and has left nothing."""
        shelves: tuple[dict[str, Any], ...] = (self.pods, self.deployments, self.children)
        for shelf in shelves:
            if key not in self.fleets and not shelf.get(key):
                shelf.pop(key, None)

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
                    self.wake(key)

    def _see_fleet(self, body: Body, *, gone: bool) -> None:
        record = records.fleet(body)
        before = self.fleets.get(record.key)
        if gone and before is not None and before.uid != record.uid:
            return  # told late: another fleet has the name by now
        if gone:
            self.fleets.pop(record.key, None)
        else:
            self.fleets[record.key] = record
        # Our own status patch comes back as an event too, and changes nothing that we decide on.
        if gone or before is None or _spec_of(before) != _spec_of(record):
            self.fleets_version += 1
            self.wake(record.key)

    def _see_child(self, kind: str, key: str, body: Body, *, gone: bool) -> None:
        shelf, place, record = self._placed(kind, key, body)
        before = shelf.get(place)
        if gone and before is not None and before.uid == record.uid:
            del shelf[place]
            self.wake(key)
        elif not gone and before != record:
            shelf[place] = record
            self.wake(key)

    def _placed(self, kind: str, key: str, body: Body) -> tuple[dict[Any, Any], object, Any]:
        """The shelf of an object, its place there, and its record."""
        name = body["metadata"]["name"]
        if kind == "Pod":
            return self.pods[key], name, records.pod(body)
        if kind == "Deployment":
            return self.deployments[key], name, records.deployment(body)
        record = ChildRecord(
            kind=kind,
            name=name,
            uid=body["metadata"]["uid"],
            applied=(body["metadata"].get("annotations") or {}).get(APPLIED_ANNOTATION),
        )
        return self.children[key], (kind, name), record

    def wake(self, key: str) -> None:
        """Have a fleet looked at again."""
        self.changed.add(key)
        self.woken.set()


def _owner_key(body: Body) -> str | None:
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_LABEL) != MANAGER or FLEET_LABEL not in labels:
        return None
    return fleet_key(metadata["namespace"], labels[FLEET_LABEL])


def _spec_of(record: FleetRecord) -> tuple[object, ...]:
    return record.uid, record.generation, record.restarted_at, record.deleted
