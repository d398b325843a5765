"""Pools that Karpenter owns."""

from collections.abc import Mapping

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from neuronfleet.infra.addons.karpenter_controller import KarpenterController
from neuronfleet.infra.addons.manifests import karpenter as manifests
from neuronfleet.infra.settings.model import Pool, Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts


class KarpenterPools(Construct):
    """A NodePool and an EC2NodeClass a pool; each may go without the others."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        network: NetworkFacts,
        cluster: ClusterFacts,
        controller: KarpenterController,
    ) -> None:
        super().__init__(scope, id)
        for pool in manifests.karpenter_pools(settings):
            place = manifests.Place(
                instance_profile=controller.instance_profile.instance_profile_name,
                subnets=network.subnets,
                security_groups=(cluster.security_group_id,),
                efa_security_group=network.efa_security_group.security_group_id,
                tags=_tags(settings, pool),
            )
            made = eks.KubernetesManifest(
                self,
                pool.name,
                cluster=cluster.cluster,
                # The class first: a pool without one is not ready.
                manifest=[manifests.node_class(pool, place), manifests.node_pool(pool)],
            )
            made.node.add_dependency(controller.chart)


def _tags(settings: Settings, pool: Pool) -> Mapping[str, str]:
    """CDK tags what it makes itself; these instances it does not."""
    return {**naming.tags(settings), "Name": f"{settings.name}-{pool.name}"}
