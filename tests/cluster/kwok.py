"""Fake nodes: kwok keeps them alive and says that whatever is placed on them runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tests.cluster import binaries, processes
from tests.cluster.health import answers
from tests.cluster.machine import Machine

FAKE = "kwok.x-k8s.io/node"
"""Annotation and taint of a fake node, with the value `fake`."""
_CONFIG = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {
        "manageAllNodes": False,
        "manageNodesWithAnnotationSelector": f"{FAKE}=fake",
        # Renewed at a quarter of it: well within the time after which a node is lost.
        "nodeLeaseDurationSeconds": 24,
        # No packet ever goes there: an address is what makes a fake pod an endpoint.
        "cidr": "10.245.0.1/16",
        "nodeLeaseParallelism": 4,
        "nodePlayStageParallelism": 4,
        "podPlayStageParallelism": 4,
        "podsOnNodeSyncParallelism": 4,
    },
}


def start(machine: Machine) -> None:
    """Start kwok's controller with the stages of its own module."""
    share = binaries.ensure("kwok") / "share"
    stages = [path.read_text() for path in sorted(share.iterdir())]
    config = machine.layout.config / "kwok.yaml"
    config.write_text("\n---\n".join((yaml.safe_dump(_CONFIG), *stages)))
    machine.start(
        "kwok",
        binaries.program("kwok"),
        f"--kubeconfig={machine.layout.kubeconfig}",
        f"--config={config}",
        f"--server-address=127.0.0.1:{machine.ports['kwok']}",
    )
    health = f"http://127.0.0.1:{machine.ports['kwok']}/healthz"
    processes.wait_for(lambda: answers(health), "kwok does not answer", 20.0, machine.named("kwok"))


def fake_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    tainted: bool = True,
) -> dict[str, Any]:
    """The manifest of one fake node.

    Args:
        name: of the node.
        labels: added to its own.
        capacity: what it has, beside 96 cores, 384 GiB and 250 pods.
        tainted: whether pods must tolerate `kwok.x-k8s.io/node=fake:NoSchedule` to go there, so
            that none that is meant to run goes by mistake.
    """
    resources = {"cpu": "96", "memory": "384Gi", "pods": "250", **(capacity or {})}
    taints = [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}] if tainted else []
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {**own, "kubernetes.io/arch": "amd64", **(labels or {})},
        },
        "spec": {"taints": taints},
        "status": {"capacity": resources, "allocatable": resources},
    }


def add_nodes(
    machine: Machine,
    count: int,
    prefix: str = "fake",
    *,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    tainted: bool = True,
) -> tuple[str, ...]:
    """Add so many fake nodes, named PREFIX-0 and on; their names. See fake_node."""
    names = tuple(f"{prefix}-{number}" for number in range(count))
    nodes = [fake_node(name, labels=labels, capacity=capacity, tainted=tainted) for name in names]
    document = {"apiVersion": "v1", "kind": "List", "items": nodes}
    machine.kubectl("apply", "--server-side", "-f", "-", given=json.dumps(document))
    return names


def remove_nodes(machine: Machine, names: Sequence[str]) -> None:
    """Take fake nodes away; the pods on them go after them."""
    machine.kubectl("delete", "nodes", "--wait=false", "--ignore-not-found", *names)


TOLERATION: Mapping[str, str] = {
    "key": FAKE,
    "operator": "Equal",
    "value": "fake",
    "effect": "NoSchedule",
}
"""What a pod needs to go to a tainted fake node."""
