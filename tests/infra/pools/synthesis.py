"""Pools of each kind, and the template of one pool's stack beside a network and a cluster."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks_v2
from constructs import Construct

from neuronfleet.infra.settings.model import Block, Model, Owner, Pool, Settings
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts
from neuronfleet.infra.stacks.pool import PoolStack
from neuronfleet.serving.api.variant import CapacityType

Template = dict[str, Any]
ENV = cdk.Environment(region="us-east-2")
ZONE = "use2-az3"
SUBNETS = {"use2-az1": "subnet-0000000000000000a", ZONE: "subnet-0000000000000000c"}
STARTS = datetime(2027, 3, 1, 11, 30, tzinfo=UTC)
ENDS = datetime(2027, 3, 4, 11, 30, tzinfo=UTC)
MODEL = Model(name="chat", fleet="models/chat", bytes_per_device=1, tensor_parallel_degree=8)

_TRN2 = Block(
    id="cr-0123456789abcdef0",
    instance_type="trn2.48xlarge",
    zone=ZONE,
    count=4,
    starts_at=STARTS,
    ends_at=ENDS,
)
BLOCK = Pool(
    name="trn2",
    owner=Owner.NODE_GROUP,
    instance_type="trn2.48xlarge",
    capacity=CapacityType.CAPACITY_BLOCK,
    zones=(ZONE,),
    most=4,
    sdk="2.29",
    ami_release="v20260409",
    efa=True,
    root_gib=500,
    block=_TRN2,
    models=(MODEL,),
)
ULTRASERVER = replace(
    BLOCK,
    name="ultra",
    instance_type="trn2u.48xlarge",
    block=replace(_TRN2, instance_type="trn2u.48xlarge", ultraserver=True),
)
RESERVED = replace(
    BLOCK,
    name="odcr",
    instance_type="inf2.48xlarge",
    capacity=CapacityType.RESERVED,
    efa=False,
    block=Block(id="cr-00000000000000001", instance_type="inf2.48xlarge", zone=ZONE, count=4),
)
EFA = replace(
    BLOCK,
    name="trn1",
    instance_type="trn1.32xlarge",
    capacity=CapacityType.ON_DEMAND,
    most=2,
    sdk="2.28",
    ami_release="v20260403",
    block=None,
)
POOLS = (BLOCK, ULTRASERVER, RESERVED, EFA)


class Surroundings(cdk.Stack):
    """Stand-ins for the network's and the cluster's stacks: names of what stands."""

    def __init__(self, scope: Construct) -> None:
        super().__init__(scope, "Surroundings", env=ENV)
        cdk.CfnWaitConditionHandle(self, "Nothing")
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-east-2a"]
        )
        efa = ec2.SecurityGroup.from_security_group_id(self, "Efa", "sg-0000000000000000e")
        self.network = NetworkFacts(vpc=vpc, subnets=SUBNETS, efa_security_group=efa)
        provider = eks_v2.KubectlProvider.from_kubectl_provider_attributes(
            self, "Kubectl", service_token="arn:aws:lambda:us-east-2:111122223333:function:kubectl"
        )
        cluster = eks_v2.Cluster.from_cluster_attributes(
            self, "Cluster", cluster_name="full", kubectl_provider=provider
        )
        self.cluster = ClusterFacts(
            name="full",
            version="1.35",
            endpoint="https://cluster.example",
            certificate_authority="QUJD",
            security_group_id="sg-0000000000000000b",
            cluster=cluster,
        )


def stack(
    pool: Pool, *, now: datetime | None = None, starting: str = "", outdir: str | None = None
) -> PoolStack:
    """The stack of one pool."""
    context = {"starting": starting} if starting else None
    app = cdk.App(context=context, analytics_reporting=False, outdir=outdir)
    around = Surroundings(app)
    return PoolStack(
        app,
        f"full-Pool-{pool.name}",
        settings=Settings(name="full", region="us-east-2", tags={"team": "serving"}),
        pool=pool,
        network=around.network,
        cluster=around.cluster,
        env=ENV,
        now=now,
    )


@cache
def synthesised(pool: Pool, now: datetime | None = None, starting: str = "") -> Template:
    """Its template. Callers only read it."""
    with TemporaryDirectory() as folder:
        built = stack(pool, now=now, starting=starting, outdir=folder)
        found: Template = dict(assertions.Template.from_stack(built).to_json())
        return found


def properties(template: Template, kind: str) -> dict[str, Any]:
    """Properties of the one resource of a type."""
    (found,) = all_properties(template, kind)
    return found


def all_properties(template: Template, kind: str) -> list[dict[str, Any]]:
    """Properties of every resource of a type."""
    return [
        one.get("Properties", {}) for one in template["Resources"].values() if one["Type"] == kind
    ]


def template_data(pool: Pool) -> dict[str, Any]:
    """What a pool's launch template says."""
    found: dict[str, Any] = properties(synthesised(pool), "AWS::EC2::LaunchTemplate")[
        "LaunchTemplateData"
    ]
    return found


def group(pool: Pool) -> dict[str, Any]:
    """A pool's node group."""
    return properties(synthesised(pool), "AWS::EKS::Nodegroup")
