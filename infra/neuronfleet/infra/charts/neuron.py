"""The Neuron chart: device plugin, scheduler extension and node problem detector."""

from collections.abc import Mapping

from neuronfleet.infra.charts.chart import Chart, Values
from neuronfleet.infra.settings.offers import neuron_types
from neuronfleet.serving.api.problems import SpecError

CHART = Chart(
    name="neuron-helm-chart",
    version="1.9.0",
    repository="oci://public.ecr.aws/neuron/neuron-helm-chart",
)
NAMESPACE = "kube-system"
SCHEDULER = "neuron-scheduler"
"""A second kube-scheduler, with the extension: EKS lets nobody extend its own. Nothing else sets
this name on a pod than the project's controller, and only where a replica takes several devices
and not all of a node; all other pods stay with the cluster's scheduler."""
DEVICE = "aws.amazon.com/neuron"
TOLERATION: Mapping[str, str] = {"key": DEVICE, "operator": "Exists", "effect": "NoSchedule"}

_KUBE_SCHEDULER: Mapping[str, str] = {
    "1.33": "v1.33.13",
    "1.34": "v1.34.4",
    "1.35": "v1.35.4",
    "1.36": "v1.36.3",
}
"""A release of each cluster version: a scheduler's minor version may be its API server's or the
one before, never a later one."""


def values(cluster_version: str) -> Values:
    """Values of the chart on a cluster of this version.

    Raises:
        SpecError: no scheduler is pinned for it.
    """
    return {
        "neuronInstances": list(neuron_types()),
        "devicePlugin": {
            "enabled": True,
            "tolerations": [dict(TOLERATION)],
            "priorityClassName": "system-node-critical",
        },
        "scheduler": {
            "enabled": True,
            "customScheduler": {
                "enabled": True,
                "fullnameOverride": SCHEDULER,
                "image": {
                    # The chart's default is of whichever version was current when it was made.
                    "repository": "registry.k8s.io/kube-scheduler",
                    "tag": _scheduler_release(cluster_version),
                    "pullPolicy": "IfNotPresent",
                },
                "replicaCount": 2,
            },
            "defaultScheduler": {"enabled": False},
        },
        # Sets the condition NeuronHealth, by which the controller leaves a node. Recovery would
        # have it end instances by their scaling group, behind Karpenter's and a drain's back.
        "npd": {
            "enabled": True,
            "nodeRecovery": {"enabled": False},
            "tolerations": [dict(TOLERATION)],
        },
        # Never beside the device plugin on a node.
        "draDriver": {"enabled": False},
        "ultraserverOperator": {"enabled": False},
    }


def _scheduler_release(cluster_version: str) -> str:
    release = _KUBE_SCHEDULER.get(cluster_version)
    if release is None:
        known = ", ".join(_KUBE_SCHEDULER)
        raise SpecError(
            f"cluster.version = {cluster_version}, must be one of {known}: "
            "for no other is a Neuron scheduler pinned (infra/charts/neuron.py)"
        )
    return release
