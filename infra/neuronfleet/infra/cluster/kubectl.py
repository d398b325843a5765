"""What applies manifests and charts: a function of CDK's in the private subnets."""

import json

from aws_cdk import CfnElement, Size, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_lambda as lambda_
from aws_cdk.lambda_layer_kubectl_v34 import KubectlV34Layer
from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.cluster import access

_MEMORY_GIB = 2
"""Helm holds a chart and its rendering in memory; CDK's own 1 GiB has been too little."""
_MANAGED = (
    "service-role/AWSLambdaBasicExecutionRole",
    "service-role/AWSLambdaVPCAccessExecutionRole",
    "AmazonEC2ContainerRegistryReadOnly",
)
_PUBLIC = "iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly"


def provider(
    scope: Construct, *, cluster: eks.ICluster, name: str, version: str, vpc: ec2.IVpc
) -> eks.KubectlProvider:
    """The function, which administers the cluster and reaches it from inside the VPC.

    Args:
        scope: Where it stands.
        cluster: With its VPC and security group.
        name: Of the cluster.
        version: Of kubectl, as 1.35.
        vpc: Whose private subnets it is in.
    """
    made = eks.KubectlProvider(
        scope,
        "Kubectl",
        cluster=cluster,
        kubectl_layer=_layer(scope, version),
        private_subnets=vpc.private_subnets,
        memory=Size.gibibytes(_MEMORY_GIB),
    )
    if made.role is None:
        raise TypeError("the kubectl provider has no role")
    # Manifests and charts are in other stacks, which wait for all of this one.
    access.administer(scope, "KubectlAccess", cluster=name, principal=made.role.role_arn)
    _acknowledge(made)
    return made


def _layer(scope: Construct, version: str) -> lambda_.ILayerVersion:
    if version == "1.34":
        return KubectlV34Layer(scope, "KubectlLayer")
    return KubectlV35Layer(scope, "KubectlLayer")


def _acknowledge(made: eks.KubectlProvider) -> None:
    """The function and its framework are CDK's; what they may do is CDK's to say."""
    handler = _logical_id(made, "Handler")
    condition = _logical_id(made, "Handler", "HasEcrPublic")
    public = {
        "Fn::If": [
            condition,
            {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":{_PUBLIC}"]]},
            {"Ref": "AWS::NoValue"},
        ]
    }
    policies = [f"arn:<AWS::Partition>:iam::aws:policy/{one}" for one in _MANAGED]
    policies.append(json.dumps(public, separators=(",", ":")))
    for policy in policies:
        nag.acknowledge(
            made,
            f"AwsSolutions-IAM4[Policy::{policy}]",
            reason="CDK's kubectl provider: logs, interfaces in the VPC, charts out of ECR.",
        )
    nag.acknowledge(
        made,
        f"AwsSolutions-IAM5[Resource::<{handler}.Arn>:*]",
        reason="CDK's provider framework calls every version of this one function.",
    )
    nag.acknowledge(made, "AwsSolutions-L1", reason="CDK picks the runtime that it tests with.")


def _logical_id(made: eks.KubectlProvider, *path: str) -> str:
    """Of a part of the provider; a function's and a condition's own construct is below `path`."""
    found = made.node.find_child(path[0])
    for name in path[1:]:
        found = found.node.find_child(name)
    element = found.node.default_child or found
    if not isinstance(element, CfnElement):
        raise TypeError(f"{'/'.join(path)} of the kubectl provider is no resource")
    return Stack.of(made).get_logical_id(element)
