"""The control plane: private unless addresses are named, encrypted, logged."""

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.settings.model import NewCluster

LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_Cluster = eks.CfnCluster


class ControlPlane(Construct):
    """The cluster without nodes; who creates it gets no rights in it by that."""

    resource: eks.CfnCluster

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        wanted: NewCluster,
        subnets: Sequence[str],
        log_days: int,
    ) -> None:
        super().__init__(scope, id)
        key = kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of {name}",
            enable_key_rotation=True,
            # Of no use without the cluster; KMS waits 30 days before it is gone.
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.resource = _Cluster(
            self,
            "Cluster",
            name=name,
            version=wanted.version,
            role_arn=self._role(key).role_arn,
            resources_vpc_config=_reach(wanted, subnets),
            access_config=_Cluster.AccessConfigProperty(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            encryption_config=[
                _Cluster.EncryptionConfigProperty(
                    provider=_Cluster.ProviderProperty(key_arn=key.key_arn), resources=["secrets"]
                )
            ],
            logging=_logging(),
            # The pinned add-ons come instead.
            bootstrap_self_managed_addons=False,
            upgrade_policy=_Cluster.UpgradePolicyProperty(support_type="STANDARD"),
        )
        # EKS would make the group itself, and keep it for ever.
        self.resource.node.add_dependency(self._log(name, log_days))

    def _role(self, key: kms.IKey) -> iam.Role:
        use = iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ListGrants"],
            resources=[key.key_arn],
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("eks.amazonaws.com"),
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")
            ],
            inline_policies={"Secrets": iam.PolicyDocument(statements=[use])},
        )
        nag.acknowledge(
            role,
            "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKSClusterPolicy]",
            reason="What EKS demands of a cluster's role is kept by AWS and changes with EKS.",
        )
        return role

    def _log(self, name: str, days: int) -> logs.CfnLogGroup:
        group = logs.CfnLogGroup(
            self, "Log", log_group_name=f"/aws/eks/{name}/cluster", retention_in_days=days
        )
        # Audit logs outlive the cluster, but no failed creation.
        group.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return group


def _reach(wanted: NewCluster, subnets: Sequence[str]) -> eks.CfnCluster.ResourcesVpcConfigProperty:
    """EKS's default is open to everyone; without addresses there is no public endpoint here."""
    return _Cluster.ResourcesVpcConfigProperty(
        subnet_ids=list(subnets),
        endpoint_private_access=True,
        endpoint_public_access=bool(wanted.public_cidrs),
        public_access_cidrs=list(wanted.public_cidrs) or None,
    )


def _logging() -> eks.CfnCluster.LoggingProperty:
    types = [_Cluster.LoggingTypeConfigProperty(type=one) for one in LOGS]
    return _Cluster.LoggingProperty(
        cluster_logging=_Cluster.ClusterLoggingProperty(enabled_types=types)
    )
