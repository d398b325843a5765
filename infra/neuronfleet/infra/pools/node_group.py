"""The managed node group of a pool, and what its nodes may do in the account."""

from aws_cdk import CfnDynamicReference, CfnDynamicReferenceService
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.settings import versions
from neuronfleet.infra.settings.model import Pool
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType

AMI_TYPE = "AL2023_x86_64_NEURON"
TAINT = "aws.amazon.com/neuron"
"""What pods that ask for a Neuron device tolerate, with any value."""
POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
STARTING = "starting"
"""Context: pools, by name and joined with commas, whose node group is created with this deployment
(docs/decisions/infra-pools.md)."""
_SOLD = {
    CapacityType.CAPACITY_BLOCK: "CAPACITY_BLOCK",
    CapacityType.RESERVED: "ON_DEMAND",
    CapacityType.ON_DEMAND: "ON_DEMAND",
}
_KARPENTERS_WORD = {
    CapacityType.CAPACITY_BLOCK: "reserved",
    CapacityType.RESERVED: "reserved",
    CapacityType.ON_DEMAND: "on-demand",
}


def node_role(scope: Construct) -> iam.Role:
    """What nodes are: kubelet, image pulls and Session Manager. No bucket, and no network rights.

    The CNI plugin has a role of its own, and pods have theirs by Pod Identity.
    """
    role = iam.Role(
        scope,
        "NodeRole",
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(one) for one in POLICIES],
    )
    for policy in POLICIES:
        nag.acknowledge(
            role,
            f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{policy}]",
            reason="What EKS demands of a node's role is kept by AWS and changes with EKS.",
        )
    return role


def node_group(
    scope: Construct,
    *,
    name: str,
    pool: Pool,
    cluster_name: str,
    kubernetes: str,
    subnet: str,
    role: iam.IRole,
    template: ec2.CfnLaunchTemplate,
) -> eks.CfnNodegroup:
    """The group, of a fixed name: CloudFormation then refuses what would replace it.

    ForceUpdateEnabled stays unset, so that an update keeps disruption budgets.
    """
    if pool.capacity not in _SOLD:
        raise SpecError(f"pools.{pool.name}.owner = node-group, must be karpenter: it is spot")
    return eks.CfnNodegroup(
        scope,
        "NodeGroup",
        cluster_name=cluster_name,
        nodegroup_name=name,
        node_role=role.role_arn,
        subnets=[subnet],
        ami_type=AMI_TYPE,
        release_version=release_version(kubernetes, pool.ami_release),
        capacity_type=_SOLD[pool.capacity],
        launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
            id=template.ref, version=template.attr_latest_version_number
        ),
        scaling_config=_scaling(scope, pool),
        # Capacity is fixed: a new node finds room only where an old one has gone.
        update_config=eks.CfnNodegroup.UpdateConfigProperty(
            max_unavailable=1, update_strategy="MINIMAL"
        ),
        labels=labels(pool),
        taints=[eks.CfnNodegroup.TaintProperty(key=TAINT, effect="NO_SCHEDULE")],
    )


def _scaling(scope: Construct, pool: Pool) -> eks.CfnNodegroup.ScalingConfigProperty:
    """Bounds without a desired size: with one, each change of a bound would set it again.

    A lower bound above what runs is refused by EKS, so it starts nothing and ends nothing.
    """
    starting = str(scope.node.try_get_context(STARTING) or "").split(",")
    return eks.CfnNodegroup.ScalingConfigProperty(
        min_size=pool.least,
        max_size=pool.most,
        desired_size=pool.least if pool.name in starting else None,
    )


def release_version(kubernetes: str, ami: str) -> str:
    """EKS's name of an AMI release (1.35.2-20260403), which AWS publishes by the AMI's name."""
    image = f"amazon-eks-node-al2023-x86_64-neuron-{kubernetes}-{ami}"
    key = (
        f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/neuron/"
        f"{image}/release_version"
    )
    return CfnDynamicReference(CfnDynamicReferenceService.SSM, key).to_string()


def labels(pool: Pool) -> dict[str, str]:
    """What pods select by, in Karpenter's words, and what the controller checks pins against."""
    found = {
        "neuronfleet.dev/pool": pool.name,
        "neuronfleet.dev/ami": pool.ami_release,
        "karpenter.sh/capacity-type": _KARPENTERS_WORD[pool.capacity],
    }
    sdk = _driver_sdk(pool.ami_release)
    if sdk is not None:
        found["neuronfleet.dev/sdk"] = sdk
    if pool.block is not None:
        found["karpenter.k8s.aws/capacity-reservation-id"] = pool.block.id
    return found


def _driver_sdk(ami: str) -> str | None:
    """The SDK that an AMI's driver belongs to; None where no release note tells."""
    for sdk, (first, last) in versions.known_amis().items():
        if first <= ami <= last:
            return sdk
    return None
