"""The EFA device plugin: hands out the interfaces that pools with EFA have."""

from collections.abc import Sequence

from neuronfleet.infra.charts.chart import Chart, Values
from neuronfleet.infra.charts.neuron import TOLERATION

CHART = Chart(
    name="aws-efa-k8s-device-plugin",
    version="v0.5.30",
    repository="https://aws.github.io/eks-charts",
)
NAMESPACE = "kube-system"


def values(instance_types: Sequence[str]) -> Values:
    """Values of the chart for pools of these types, and no other node.

    Its image lies in EKS's own registry in us-west-2, which nodes of every region may read.
    """
    return {
        "supportedInstanceLabels": {
            "keys": ["node.kubernetes.io/instance-type"],
            "values": sorted(set(instance_types)),
        },
        "tolerations": [dict(TOLERATION)],
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    }
