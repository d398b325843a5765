"""What the stacks of this area are given, as things that stand already: no other stack is made."""

import json
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from neuronfleet.infra.settings.model import (
    Block,
    ExistingCluster,
    Image,
    Observability,
    Owner,
    Pool,
    Settings,
)
from neuronfleet.infra.stacks.addons import AddonsStack
from neuronfleet.infra.stacks.facts import ClusterFacts, DataFacts, NetworkFacts
from neuronfleet.infra.stacks.observability import ObservabilityStack
from neuronfleet.infra.stacks.serving import ServingStack
from neuronfleet.serving.api.variant import CapacityType

ACCOUNT = "111122223333"
REGION = "us-east-2"
DIGEST = f"sha256:{'0' * 64}"
IMAGES = ("controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2")
ARN = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:kubectl"


def a_pool(name: str, instance_type: str, **given: Any) -> Pool:
    """A pool of Karpenter's, if nothing else is said."""
    usual: dict[str, Any] = {
        "owner": Owner.KARPENTER,
        "capacity": CapacityType.ON_DEMAND,
        "zones": ("use2-az3",),
        "most": 2,
        "sdk": "2.28",
        "ami_release": "v20260403",
    }
    return Pool(name=name, instance_type=instance_type, **usual | given)


INF2 = a_pool("inf2", "inf2.xlarge", zones=("use2-az1", "use2-az3"))
TRN1 = a_pool("trn1", "trn1.32xlarge", efa=True)
BLOCK = a_pool(
    "block",
    "trn2.48xlarge",
    owner=Owner.NODE_GROUP,
    capacity=CapacityType.CAPACITY_BLOCK,
    efa=True,
    block=Block(id="cr-0123456789abcdef0", instance_type="trn2.48xlarge", zone="use2-az3", count=2),
)


def settings(*pools: Pool, **given: Any) -> Settings:
    """A deployment with these pools."""
    usual: dict[str, Any] = {
        "cluster": ExistingCluster(
            name="prod",
            version="1.35",
            endpoint="https://prod.example",
            certificate_authority="Q0E=",
            security_group_id="sg-0123456789abcdef0",
        ),
        "images": tuple(Image(name=name, digest=DIGEST) for name in IMAGES),
        "observability": Observability(
            alarm_email="ops@fleet.example", budget_usd_per_month=5000.0
        ),
        "zones": ("use2-az1", "use2-az3"),
        "tags": {"team": "serving"},
    }
    return Settings(name="fleet", region=REGION, pools=pools, **usual | given)


class World:
    """An app with one stack of things that stand, and the stacks that are asked for."""

    def __init__(
        self, given: Settings, *, nat: tuple[str, ...] = (), account: str | None = ACCOUNT
    ) -> None:
        self.app = cdk.App()
        self.env = cdk.Environment(account=account, region=REGION)
        self.given = given
        self._outside = cdk.Stack(self.app, "fleet-Outside", env=self.env)
        self.network = self._network(nat)
        self.data = self._data()
        self.cluster = self._cluster()

    def addons(self) -> cdk.Stack:
        """The Addons stack."""
        return AddonsStack(
            self.app, "fleet-Addons", settings=self.given, env=self.env,
            network=self.network, data=self.data, cluster=self.cluster,
        )  # fmt: skip

    def observability(self) -> cdk.Stack:
        """The Observability stack."""
        return ObservabilityStack(
            self.app, "fleet-Observability", settings=self.given, env=self.env,
            network=self.network, cluster=self.cluster,
        )  # fmt: skip

    def serving(self) -> cdk.Stack:
        """The Serving stack."""
        return ServingStack(
            self.app, "fleet-Serving", settings=self.given, env=self.env,
            data=self.data, cluster=self.cluster,
        )  # fmt: skip

    def _network(self, nat: tuple[str, ...]) -> NetworkFacts:
        group = ec2.SecurityGroup.from_security_group_id(
            self._outside, "Efa", "sg-0123456789abcdef1"
        )
        vpc = ec2.Vpc.from_vpc_attributes(
            self._outside, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=[REGION]
        )
        subnets = {f"use2-az{number}": f"subnet-0123456789abcdef{number}" for number in (1, 3)}
        return NetworkFacts(vpc=vpc, subnets=subnets, efa_security_group=group, nat_gateways=nat)

    def _data(self) -> DataFacts:
        key = kms.Key.from_key_arn(self._outside, "Key", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/k")
        buckets = {
            name: s3.Bucket.from_bucket_name(self._outside, name, f"fleet-{name}")
            for name in ("weights", "graphs", "logs")
        }
        return DataFacts(
            key=key,
            weights=buckets["weights"],
            graphs=buckets["graphs"],
            access_logs=buckets["logs"],
            repositories={
                name: ecr.Repository.from_repository_name(self._outside, name, f"fleet/{name}")
                for name in IMAGES
            },
        )

    def _cluster(self) -> ClusterFacts:
        assert isinstance(self.given.cluster, ExistingCluster)
        provider = eks.KubectlProvider.from_kubectl_provider_attributes(
            self._outside, "Kubectl", service_token=ARN,
            role=iam.Role.from_role_arn(
                self._outside, "KubectlRole", f"arn:aws:iam::{ACCOUNT}:role/kubectl"
            ),
        )  # fmt: skip
        given = self.given.cluster
        cluster = eks.Cluster.from_cluster_attributes(
            self._outside, "Eks", cluster_name=given.name, vpc=self.network.vpc,
            kubectl_provider=provider, cluster_security_group_id=given.security_group_id,
        )  # fmt: skip
        return ClusterFacts(
            name=given.name,
            version=given.version,
            endpoint=given.endpoint,
            certificate_authority=given.certificate_authority,
            security_group_id=given.security_group_id,
            cluster=cluster,
        )


class Made:
    """The template of a stack."""

    def __init__(self, stack: cdk.Stack) -> None:
        self.template: Mapping[str, Any] = assertions.Template.from_stack(stack).to_json()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Properties of all resources of a type."""
        return [one["Properties"] for one in self.resources(kind)]

    def one(self, kind: str) -> dict[str, Any]:
        """Properties of the only one of a type."""
        (found,) = self.of(kind)
        return found

    def resources(self, kind: str) -> list[dict[str, Any]]:
        """All resources of a type."""
        return [one for one in self.template["Resources"].values() if one["Type"] == kind]

    def types(self) -> set[str]:
        """Types of all resources."""
        return {one["Type"] for one in self.template["Resources"].values()}

    def charts(self) -> dict[str, dict[str, Any]]:
        """Charts by release, with their values read."""
        found = {}
        for one in self.of("Custom::AWSCDK-EKS-HelmChart"):
            values = json.loads(text(one["Values"])) if "Values" in one else {}
            found[one["Release"]] = one | {"Values": values}
        return found

    def manifests(self) -> list[dict[str, Any]]:
        """Every Kubernetes object that is applied."""
        return [
            made
            for one in self.of("Custom::AWSCDK-EKS-KubernetesResource")
            for made in json.loads(text(one["Manifest"]))
        ]

    def statements(self) -> list[dict[str, Any]]:
        """Statements of all policies of identities."""
        kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        return [
            one
            for kind in kinds
            for policy in self.of(kind)
            for one in policy["PolicyDocument"]["Statement"]
        ]


def text(value: Any) -> str:
    """A string of a template, with what AWS fills in written as `<name>`."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(text(part) for part in value["Fn::Join"][1])
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if "Ref" in value:
        return f"<{value['Ref']}>"
    return f"<{json.dumps(value, sort_keys=True)}>".replace('"', "'")
