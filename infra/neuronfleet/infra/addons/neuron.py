"""Neuron devices in Kubernetes: device plugin, scheduler extension, problem detector."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from neuronfleet.infra.addons import helm
from neuronfleet.infra.addons.manifests.objects import namespace
from neuronfleet.infra.charts import neuron
from neuronfleet.infra.stacks.facts import ClusterFacts

_HEALTH = "neuron-healthcheck-system"
"""Where the chart puts its problem detector, and which it does not make."""


class Neuron(Construct):
    """The Neuron chart. Who sets `schedulerName`: see `charts.neuron.SCHEDULER`."""

    def __init__(self, scope: Construct, id: str, *, cluster: ClusterFacts) -> None:
        super().__init__(scope, id)
        health = eks.KubernetesManifest(
            self,
            "Health",
            cluster=cluster.cluster,
            # It reads the kernel's log from the host.
            manifest=[namespace(_HEALTH, "privileged")],
        )
        chart = helm.install(
            self,
            "Chart",
            neuron.CHART,
            cluster=cluster.cluster,
            namespace=neuron.NAMESPACE,
            values=neuron.values(cluster.version),
        )
        chart.node.add_dependency(health)
