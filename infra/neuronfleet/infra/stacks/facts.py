"""What a stack tells those that build upon it."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks_v2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """Where nodes stand."""

    vpc: ec2.IVpc
    subnets: Mapping[str, str]
    """Private node subnet of each zone, by zone ID."""
    efa_security_group: ec2.ISecurityGroup
    """All traffic to and from itself, as EFA needs it."""
    nat_gateways: tuple[str, ...] = ()
    """The project's own, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """What outlives every other stack."""

    key: kms.IKey
    weights: s3.IBucket
    graphs: s3.IBucket
    """Compiled graphs; keys begin with the compiler's version."""
    access_logs: s3.IBucket
    repositories: Mapping[str, ecr.IRepository]
    """By image name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The cluster, new or existing."""

    name: str
    version: str
    """Kubernetes, as 1.35."""
    endpoint: str
    certificate_authority: str
    """Base64, as `describe-cluster` gives it."""
    security_group_id: str
    """The cluster's own group, which nodes join."""
    cluster: eks_v2.ICluster
    """With a kubectl provider: manifests and charts can be applied to it."""
