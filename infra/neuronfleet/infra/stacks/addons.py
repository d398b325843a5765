"""What the cluster runs for Neuron fleets, before any fleet is there."""

from aws_cdk import Environment, Stack
from constructs import Construct

from neuronfleet.infra.addons.efa import Efa, efa_types
from neuronfleet.infra.addons.fleet_identity import FleetIdentity
from neuronfleet.infra.addons.karpenter_controller import KarpenterController
from neuronfleet.infra.addons.karpenter_pools import KarpenterPools
from neuronfleet.infra.addons.manifests.karpenter import karpenter_pools
from neuronfleet.infra.addons.neuron import Neuron
from neuronfleet.infra.addons.neuron_monitor import NeuronMonitor
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks.facts import ClusterFacts, DataFacts, NetworkFacts


class AddonsStack(Stack):
    """Neuron's parts, EFA's and Karpenter where a pool is theirs, and identities."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        env: Environment,
        network: NetworkFacts,
        data: DataFacts,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(
            scope, id, env=env, description="Neuron and EFA devices, Karpenter, identities"
        )
        Neuron(self, "Neuron", cluster=cluster)
        NeuronMonitor(self, "NeuronMonitor", cluster=cluster, network_cidr=settings.network.cidr)
        FleetIdentity(self, "Fleets", serving=settings.serving, data=data, cluster=cluster)
        if efa_types(settings):
            Efa(self, "Efa", cluster=cluster, settings=settings)
        if karpenter_pools(settings):
            controller = KarpenterController(
                self,
                "Karpenter",
                settings=settings,
                cluster=cluster,
            )
            KarpenterPools(
                self,
                "Pools",
                settings=settings,
                network=network,
                cluster=cluster,
                controller=controller,
            )
