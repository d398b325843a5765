"""One node-group pool, a stack of its own: made, changed and destroyed without touching another."""

from datetime import datetime

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.pools.launch_template import Groups, launch_template
from neuronfleet.infra.pools.lifecycle import Lifecycle
from neuronfleet.infra.pools.node_group import node_group, node_role
from neuronfleet.infra.pools.notice import EndNotice
from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import Block, Pool, Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType


class PoolStack(Stack):
    """Launch template, node group and role; of a capacity block, its lifecycle and end notice."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        pool: Pool,
        network: NetworkFacts,
        cluster: ClusterFacts,
        env: Environment,
        now: datetime | None = None,
    ) -> None:
        """The stack of one pool.

        Args:
            scope: The app.
            id: Name of the stack.
            settings: Of the deployment.
            pool: One that node groups own.
            network: Where nodes stand.
            cluster: What they join.
            env: Account and region.
            now: Time of the synthesis; None is before a block's start.

        Raises:
            SpecError: the pool's type, zone or block cannot be built.
        """
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Pool {pool.name}: {pool.instance_type}, {pool.capacity}",
        )
        self._name = f"{settings.name}-{pool.name}"
        group = self._nodes(settings, pool, network, cluster)
        CfnOutput(
            self,
            "Resize",
            value=f"aws eks update-nodegroup-config --cluster-name {cluster.name} "
            f"--nodegroup-name {self._name} --scaling-config desiredSize=NODES",
            description="Command that sets how many nodes run, where no schedule does",
        )
        if pool.capacity is not CapacityType.CAPACITY_BLOCK or pool.block is None:
            return
        undelivered = _undelivered(self, naming.undelivered(settings, pool))
        Lifecycle(
            self,
            "Lifecycle",
            pool=pool,
            block=pool.block,
            cluster_name=cluster.name,
            group_name=self._name,
            group_arn=group.attr_arn,
            undelivered=undelivered,
            now=now,
        )
        self._end_notice(settings, pool, pool.block, network, cluster, undelivered)

    def _nodes(
        self, settings: Settings, pool: Pool, network: NetworkFacts, cluster: ClusterFacts
    ) -> eks.CfnNodegroup:
        """Template, role and node group."""
        offer = offers.find(pool.instance_type)
        if offer is None:
            raise SpecError(f"instanceType = {pool.instance_type}, is not a recorded type")
        template = launch_template(
            self,
            name=self._name,
            pool=pool,
            offer=offer,
            groups=Groups(
                cluster=cluster.security_group_id, efa=network.efa_security_group.security_group_id
            ),
            placement_group=self._placement_group(pool),
            tags=naming.tags(settings),
        )
        return node_group(
            self,
            name=self._name,
            pool=pool,
            cluster_name=cluster.name,
            kubernetes=cluster.version,
            subnet=_subnet(pool, network),
            role=node_role(self),
            template=template,
        )

    def _placement_group(self, pool: Pool) -> str | None:
        """Nodes of an on-demand EFA pool stand close; a reservation's stand where it was made.

        EC2 places a capacity block's instances together by itself and takes no group beside it.
        """
        if not pool.efa or pool.capacity is not CapacityType.ON_DEMAND:
            return None
        return ec2.CfnPlacementGroup(self, "Placement", strategy="cluster").ref

    def _end_notice(
        self,
        settings: Settings,
        pool: Pool,
        block: Block,
        network: NetworkFacts,
        cluster: ClusterFacts,
        undelivered: sqs.Queue,
    ) -> None:
        """Nobody is told where no fleet is known to be served there."""
        fleets = sorted({model.fleet for model in pool.models})
        if not fleets:
            return
        EndNotice(
            self,
            "EndNotice",
            name=f"{self._name}-end-notice",
            block=block,
            fleets=fleets,
            network=network,
            cluster=cluster,
            undelivered=undelivered,
            log_days=settings.observability.log_days,
        )


def _subnet(pool: Pool, network: NetworkFacts) -> str:
    """The private subnet of the pool's one zone."""
    if len(pool.zones) != 1 or pool.zones[0] not in network.subnets:
        known = ", ".join(network.subnets)
        raise SpecError(
            f"pools.{pool.name}.zones = {', '.join(pool.zones)}, must be one of {known}"
        )
    return network.subnets[pool.zones[0]]


def _undelivered(scope: Construct, name: str) -> sqs.Queue:
    """What neither schedules nor notices could deliver, kept 14 days."""
    queue = sqs.Queue(
        scope,
        "Undelivered",
        queue_name=name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    nag.acknowledge(queue, "AwsSolutions-SQS3", reason="It is itself where dead letters go.")
    return queue
