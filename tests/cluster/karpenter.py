"""The real Karpenter, with the provider whose instances are kwok's fake nodes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster import binaries, processes
from tests.cluster.health import answers
from tests.cluster.machine import Machine
from tests.cluster.offers import CAPACITY_TYPES, INSTANCE_TYPES, Offer, instance_types

POOL = "neuron"
NEURON = "aws.amazon.com/neuron"
_NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": POOL}
_READY_S = 60.0


def start(machine: Machine, withdrawn: Sequence[Offer] = ()) -> None:
    """Start Karpenter with one pool of Neuron nodes."""
    share = binaries.ensure("karpenter") / "share"
    machine.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(share))
    wait = ("wait", "--for=condition=Established", "--timeout=30s")
    machine.kubectl(*wait, "-f", str(share))
    _launch(machine, withdrawn)
    apply_pool(machine)
    machine.karpenter = True
    machine.save()


def _launch(machine: Machine, withdrawn: Sequence[Offer]) -> None:
    path = machine.layout.config / "instance-types.json"
    path.write_text(json.dumps(instance_types(withdrawn), indent=1))
    health = machine.ports["karpenter-health"]
    machine.start(
        "karpenter",
        binaries.program("karpenter"),
        env={
            "KUBECONFIG": str(machine.layout.kubeconfig),
            "INSTANCE_TYPES_FILE_PATH": str(path),
            "DISABLE_LEADER_ELECTION": "true",
            # kwok's provider gives reservations no identity, without which the core fails on them:
            # with the gate off they are one more capacity type, and the cheapest after spot.
            "FEATURE_GATES": "ReservedCapacity=false",
            "HEALTH_PROBE_PORT": str(health),
            "METRICS_PORT": str(machine.ports["karpenter-metrics"]),
            "SYSTEM_NAMESPACE": "kube-system",
            "BATCH_IDLE_DURATION": "500ms",
            "BATCH_MAX_DURATION": "3s",
        },
    )
    processes.wait_for(
        lambda: answers(f"http://127.0.0.1:{health}/readyz"),
        "karpenter is not ready",
        _READY_S,
        machine.named("karpenter", "kube-apiserver"),
    )


def withdraw(machine: Machine, *offers: Offer) -> None:
    """Have the cloud sell none of these; nodes that stand are untouched.

    Without any, all offers are back. Karpenter reads its offers as it starts, so it is restarted.
    """
    machine.stop("karpenter")
    _launch(machine, offers)


def pool(
    *,
    limits: Mapping[str, str] | None = None,
    consolidate_after: str = "Never",
    consolidation_policy: str = "WhenEmpty",
    instance_type_names: Sequence[str] = INSTANCE_TYPES,
    capacity_types: Sequence[str] = CAPACITY_TYPES,
) -> dict[str, Any]:
    """The manifest of the pool.

    Args:
        limits: such as {"aws.amazon.com/neuron": "4"}; beyond them no node is made.
        consolidate_after: idle time after which a node is given up, such as "5s", or Never.
        consolidation_policy: WhenEmpty or WhenEmptyOrUnderutilized.
        instance_type_names: types that the pool may hold.
        capacity_types: capacity types that the pool may hold.
    """
    allowed = {
        "node.kubernetes.io/instance-type": list(instance_type_names),
        "karpenter.sh/capacity-type": list(capacity_types),
    }
    requirements = [
        {"key": key, "operator": "In", "values": values} for key, values in allowed.items()
    ]
    template = {
        "spec": {
            "nodeClassRef": _NODE_CLASS,
            "requirements": requirements,
            "expireAfter": "Never",
            # As on EKS: only who asks for devices goes there (its admission adds the toleration).
            "taints": [{"key": NEURON, "value": "present", "effect": "NoSchedule"}],
        }
    }
    disruption = {
        "consolidationPolicy": consolidation_policy,
        "consolidateAfter": consolidate_after,
        "budgets": [{"nodes": "100%"}],
    }
    spec: dict[str, Any] = {"template": template, "disruption": disruption}
    if limits:
        spec["limits"] = dict(limits)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": spec,
    }


def apply_pool(
    machine: Machine,
    manifest: Mapping[str, Any] | None = None,
    *,
    registration_delay: str = "0s",
) -> None:
    """Make the pool as `manifest` says, or as it is without a word; its nodes take the delay."""
    node_class = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": POOL},
        "spec": {"nodeRegistrationDelay": registration_delay},
    }
    document = {"apiVersion": "v1", "kind": "List", "items": [node_class, manifest or pool()]}
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    machine.kubectl(*apply, given=json.dumps(document))


def clear(machine: Machine) -> None:
    """End every node of Karpenter's and wait until they are gone; pods on them go with them."""
    machine.kubectl("delete", "nodeclaims", "--all", "--timeout=60s")


def spot_notice(machine: Machine, node: str) -> None:
    """Taint a node as Karpenter does when its instance is about to be taken back."""
    machine.kubectl("taint", "--overwrite", "node", node, "karpenter.sh/disrupted:NoSchedule")


def interrupt(machine: Machine, node: str) -> None:
    """Have Karpenter drain and end a node, as it does two minutes before a spot interruption."""
    path = f'jsonpath={{.items[?(@.status.nodeName=="{node}")].metadata.name}}'
    claim = machine.kubectl("get", "nodeclaims", "-o", path)
    machine.kubectl("delete", "nodeclaim", claim, "--wait=false")
