"""Small pods for tests of a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.images import PROBE

NEURON = "aws.amazon.com/neuron"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ON_REAL: Mapping[str, str] = {"neuronfleet.dev/real": "true"}
"""Selects the one node that truly runs what it is given."""

_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def pod(
    name: str,
    *,
    devices: int = 0,
    arguments: Sequence[str] = (),
    selector: Mapping[str, str] = ON_REAL,
    tolerations: Sequence[Mapping[str, str]] = (),
    restart: str = "Always",
    host_port: int | None = None,
) -> dict[str, Any]:
    """A pod of the cluster's own image, within the restricted pod security standard."""
    container: dict[str, Any] = {
        "name": "main",
        "image": PROBE,
        "args": list(arguments),
        "securityContext": _RESTRICTED,
    }
    if devices:
        container["resources"] = {"limits": {NEURON: str(devices)}}
    if arguments[:1] == ["serve"]:
        probe = {"httpGet": {"path": "/", "port": int(arguments[1])}, "periodSeconds": 1}
        container["readinessProbe"] = probe
    if host_port:
        container["ports"] = [{"containerPort": int(arguments[1]), "hostPort": host_port}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "nodeSelector": dict(selector),
            "tolerations": [dict(one) for one in tolerations],
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
        },
    }


def service(name: str, port: int) -> dict[str, Any]:
    """A Service on port 80 for the pods of one name."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
