"""neuron-monitor, whose metrics Managed Prometheus scrapes."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from neuronfleet.infra.addons.manifests import neuron_monitor
from neuronfleet.infra.stacks.facts import ClusterFacts


class NeuronMonitor(Construct):
    """The DaemonSet in its own namespace, open to the network's scrapers alone."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: ClusterFacts, network_cidr: str
    ) -> None:
        super().__init__(scope, id)
        eks.KubernetesManifest(
            self,
            "Objects",
            cluster=cluster.cluster,
            manifest=neuron_monitor.manifests(network_cidr),
        )
