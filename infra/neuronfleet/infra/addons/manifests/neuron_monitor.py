"""neuron-monitor on every Neuron node: what the devices do, as metrics."""

from collections.abc import Sequence
from typing import Any

from neuronfleet.infra.addons.manifests.objects import (
    Manifest,
    ingress_policy,
    namespace,
    service_account,
)
from neuronfleet.infra.charts.neuron import TOLERATION
from neuronfleet.infra.settings.offers import neuron_types

NAMESPACE = "neuron-monitor"
NAME = "neuron-monitor"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "neuronfleet"}
IMAGE = "public.ecr.aws/neuron/neuron-monitor:1.3.0"
PORT_NAME = "metrics"
PORT = 9010
"""Not its own 8000, which is the replicas': a rule of a firewall or a scraper never means both."""
_CONFIG = "/opt/aws/neuron/bin/neuron-monitor.conf"


def manifests(
    scraped_from: str,
    *,
    image: str = IMAGE,
    command: Sequence[str] = ("/opt/bin/entrypoint.sh",),
) -> list[Manifest]:
    """Namespace, identity, policy and DaemonSet.

    Args:
        scraped_from: the network whose addresses may read the metrics, as 10.0.0.0/16.
        image: where tests put a stand-in.
        command: its program, which takes the arguments of neuron-monitor's own.
    """
    reader = {
        "from": [{"ipBlock": {"cidr": scraped_from}}],
        "ports": [{"port": PORT_NAME, "protocol": "TCP"}],
    }
    return [
        # Alone in it: reading devices takes a privileged container.
        namespace(NAMESPACE, "privileged"),
        service_account(NAME, NAMESPACE),
        ingress_policy(NAME, NAMESPACE, labels=LABELS, rules=[reader]),
        _daemon_set(image, command),
    ]


def _daemon_set(image: str, command: Sequence[str]) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": dict(LABELS)},
        "spec": {
            "selector": {"matchLabels": dict(LABELS)},
            # A node more or less is no reason to look at its devices one by one.
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "20%"}},
            "template": {
                "metadata": {"labels": dict(LABELS)},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [dict(TOLERATION)],
                    "affinity": _neuron_nodes(),
                    "containers": [_container(image, command)],
                },
            },
        },
    }


def _neuron_nodes() -> dict[str, Any]:
    """By name of the type: the published DaemonSet leaves trn2 out."""
    types = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": list(neuron_types()),
    }
    required = {"nodeSelectorTerms": [{"matchExpressions": [types]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _container(image: str, command: Sequence[str]) -> dict[str, Any]:
    return {
        "name": NAME,
        "image": image,
        "command": list(command),
        "args": ["--port", str(PORT), "--neuron-monitor-config", _CONFIG],
        # Go's collector stays below the limit, where the kernel would end it.
        "env": [{"name": "GOMEMLIMIT", "value": "160MiB"}],
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT_NAME}, "periodSeconds": 30},
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        # /dev/neuron* without taking the devices from replicas; it shares no namespace of the host.
        "securityContext": {"privileged": True},
    }
