"""What Karpenter's controller may do: the policies of its own template, for 1.14.3.

Two differ. Nodes get an instance profile that is made here, so Karpenter may make none: that
takes away all rights to write IAM, and IAM has no endpoint in a VPC. And zones are never shifted
from, since a Neuron type often has but one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Statement = Mapping[str, Any]

_LAUNCHED = ("fleet", "instance", "volume", "network-interface", "launch-template")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the policies are limited to."""

    partition: str
    region: str
    account: str
    cluster: str
    """Its name, known at synthesis: it is part of a condition's key."""
    node_role: str
    queue: str

    def ec2(self, *kinds: str, account: str = "*") -> list[str]:
        """Resources of EC2 in this region."""
        return [f"arn:{self.partition}:ec2:{self.region}:{account}:{kind}/*" for kind in kinds]

    @property
    def owned(self) -> dict[str, Any]:
        """Only what carries the cluster's tags and a NodePool's."""
        return {
            "StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{self.cluster}": "owned"},
            "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
        }

    @property
    def tagged(self) -> dict[str, Any]:
        """Only with those tags in the request itself."""
        return {
            "StringEquals": {
                f"aws:RequestTag/kubernetes.io/cluster/{self.cluster}": "owned",
                "aws:RequestTag/eks:eks-cluster-name": self.cluster,
            },
            "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
        }


def policies(scope: Scope) -> Mapping[str, Sequence[Statement]]:
    """Statements of each policy, by its name."""
    return {
        "NodeLifecycle": _node_lifecycle(scope),
        "IamIntegration": _iam_integration(scope),
        "EksIntegration": _eks_integration(scope),
        "Interruption": _interruption(scope),
        "ResourceDiscovery": _resource_discovery(scope),
    }


def _node_lifecycle(scope: Scope) -> list[Statement]:
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    given = scope.ec2("image", "snapshot", account="") + scope.ec2(
        "security-group", "subnet", "capacity-reservation", "placement-group"
    )
    launched = scope.ec2(*_LAUNCHED, "spot-instances-request")
    created = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    tagging = {**scope.tagged, "StringEquals": {**scope.tagged["StringEquals"], **created}}
    late = {
        **scope.owned,
        "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": scope.cluster},
        "ForAllValues:StringEquals": {
            "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
        },
    }
    return [
        _allow("LaunchFrom", launch, given),
        _allow("LaunchByOwnTemplates", launch, scope.ec2("launch-template"), scope.owned),
        _allow("LaunchTagged", [*launch, "ec2:CreateLaunchTemplate"], launched, scope.tagged),
        _allow("TagAtLaunch", ["ec2:CreateTags"], launched, tagging),
        _allow("TagOwnNodes", ["ec2:CreateTags"], scope.ec2("instance"), late),
        _allow(
            "EndOwnNodes",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            scope.ec2("instance", "launch-template"),
            scope.owned,
        ),
    ]


def _iam_integration(scope: Scope) -> list[Statement]:
    to_ec2 = {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com"]}}
    return [_allow("GiveNodesTheirRole", ["iam:PassRole"], [scope.node_role], to_ec2)]


def _eks_integration(scope: Scope) -> list[Statement]:
    arn = f"arn:{scope.partition}:eks:{scope.region}:{scope.account}:cluster/{scope.cluster}"
    return [_allow("ReadOwnCluster", ["eks:DescribeCluster"], [arn])]


def _interruption(scope: Scope) -> list[Statement]:
    actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    return [_allow("ReadNotices", actions, [scope.queue])]


def _resource_discovery(scope: Scope) -> list[Statement]:
    described = (
        "CapacityReservations", "Images", "Instances", "InstanceStatus", "InstanceTypeOfferings",
        "InstanceTypes", "LaunchTemplates", "PlacementGroups", "SecurityGroups",
        "SpotPriceHistory", "Subnets",
    )  # fmt: skip
    here = {"StringEquals": {"aws:RequestedRegion": scope.region}}
    parameters = f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*"
    profiles = f"arn:{scope.partition}:iam::{scope.account}:instance-profile/*"
    return [
        _allow("ReadRegion", [f"ec2:Describe{what}" for what in described], ["*"], here),
        _allow("ReadImageParameters", ["ssm:GetParameter"], [parameters]),
        _allow("ReadPrices", ["pricing:GetProducts"], ["*"]),
        # Its garbage collector looks for profiles of its own making, and finds none.
        _allow("ListProfiles", ["iam:ListInstanceProfiles"], ["*"]),
        _allow("ReadProfiles", ["iam:GetInstanceProfile"], [profiles]),
    ]


def _allow(
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    condition: Mapping[str, Any] | None = None,
) -> Statement:
    statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": list(resources),
    }
    return statement | ({"Condition": dict(condition)} if condition else {})
