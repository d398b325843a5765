"""Karpenter: its CRDs, its controller, and who it is in AWS."""

from collections.abc import Sequence
from dataclasses import replace

from aws_cdk import Stack, Token
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.addons import helm
from neuronfleet.infra.addons.karpenter_policies import Scope, policies
from neuronfleet.infra.addons.karpenter_queue import KarpenterQueue
from neuronfleet.infra.addons.pod_identity import PodIdentity
from neuronfleet.infra.charts import karpenter
from neuronfleet.infra.pools.node_group import node_role
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts


class KarpenterController(Construct):
    """The controller, and the role that nodes of its making have."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(scope, id)
        self.node_role = node_role(self)
        entry = self._join(cluster)
        self.instance_profile = iam.InstanceProfile(self, "NodeProfile", role=self.node_role)
        notices = KarpenterQueue(self, "Notices", deployment=settings.name)
        identity = PodIdentity(
            self,
            "Pods",
            cluster_name=cluster.name,
            namespaces=(karpenter.NAMESPACE,),
            service_account=karpenter.SERVICE_ACCOUNT,
        )
        allowed = self._allow(identity.role, naming.cluster(settings), notices)
        crds = helm.install(
            self, "Crds", karpenter.CRDS, cluster=cluster.cluster, namespace=karpenter.NAMESPACE
        )
        self.chart = helm.install(
            self,
            "Chart",
            karpenter.CONTROLLER,
            cluster=cluster.cluster,
            namespace=karpenter.NAMESPACE,
            values=karpenter.values(
                karpenter.Install(
                    cluster_name=cluster.name,
                    cluster_endpoint=cluster.endpoint,
                    interruption_queue=notices.queue.queue_name,
                )
            ),
            # They come by the chart of their own, which upgrades them.
            skip_crds=True,
        )
        # Without its rights it does not start, and at the end cannot clear up what it made.
        self.chart.node.add_dependency(crds, identity, entry, *allowed)

    def _join(self, cluster: ClusterFacts) -> eks.CfnAccessEntry:
        """Managed node groups bring their own entry; nodes of Karpenter's cannot join without."""
        return eks.CfnAccessEntry(
            self,
            "NodesMayJoin",
            cluster_name=cluster.name,
            principal_arn=self.node_role.role_arn,
            type="EC2_LINUX",
        )

    def _allow(
        self, role: iam.Role, cluster: str, notices: KarpenterQueue
    ) -> list[iam.ManagedPolicy]:
        stack = Stack.of(self)
        scope = Scope(
            partition=stack.partition,
            region=stack.region,
            account=stack.account,
            cluster=cluster,
            node_role=self.node_role.role_arn,
            queue=notices.queue.queue_arn,
        )
        shown, made = policies(_as_findings_show(scope)), []
        for name, statements in policies(scope).items():
            policy = iam.ManagedPolicy(
                self,
                name,
                description=f"Karpenter's controller: {name}",
                document=iam.PolicyDocument(
                    statements=[iam.PolicyStatement.from_json(dict(one)) for one in statements]
                ),
                roles=[role],
            )
            _acknowledge(policy, [one for part in shown[name] for one in part["Resource"]])
            made.append(policy)
        return made


def _as_findings_show(scope: Scope) -> Scope:
    """The scope with what is only known in AWS written as cdk-nag writes it."""
    unknown = Token.is_unresolved(scope.account)
    return replace(
        scope,
        partition="<AWS::Partition>",
        account="<AWS::AccountId>" if unknown else scope.account,
        node_role="",
        queue="",
    )


def _acknowledge(policy: iam.ManagedPolicy, resources: Sequence[str]) -> None:
    for resource in dict.fromkeys(one for one in resources if "*" in one):
        nag.acknowledge(
            policy,
            f"AwsSolutions-IAM5[Resource::{resource}]",
            reason="what it starts has no name before; the conditions are its tags and the region",
        )
