"""Identity, bootstrap, principals, versions and networks, as preflight asks for them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from neuronfleet.infra.commands.checks import account, cluster, network
from neuronfleet.infra.commands.finding import Finding, Verdict
from neuronfleet.infra.settings.model import ExistingNetwork
from tests.infra.commands.accounts import Answers, Moto, settings

EXISTING_NETWORK = (
    "zones: [use2-az1, use2-az3]\ncluster:",
    """zones: [use2-az1, use2-az3]
network:
  existing:
    vpcId: VPC
    cidr: 10.0.0.0/16
    subnets: {use2-az1: SUBNET}
cluster:""",
)
EXISTING_CLUSTER = (
    "  admins: [role/ClusterAdmin]\n",
    """  existing:
    name: ours
    version: "1.35"
    endpoint: https://abc.example.com
    certificateAuthority: QUJD
    securityGroupId: sg-0123456789abcdef0
""",
)


@pytest.fixture
def moto() -> Iterator[Moto]:
    with mock_aws():
        yield Moto()


@pytest.fixture(scope="module")
def vpcs() -> Iterator[Moto]:
    """One account for all networks: each is another VPC, and to make the account takes seconds."""
    with mock_aws():
        yield Moto()


def by_what(found: Iterator[Finding]) -> dict[str, Finding]:
    return {one.what: one for one in found}


def test_an_account_without_bootstrap_or_admin_would_fail(moto: Moto) -> None:
    found = by_what(account.findings(settings(), moto))

    assert found["identity"].verdict is Verdict.FINE
    assert found["bootstrap"].verdict is Verdict.FAILS
    assert "npx cdk bootstrap" in found["bootstrap"].said
    assert found["principal"].verdict is Verdict.FAILS
    assert "role/ClusterAdmin, is no role of this account" in found["principal"].said


def test_a_bootstrapped_account_with_the_role_is_fine(moto: Moto) -> None:
    moto.client("ssm").put_parameter(Name=account.BOOTSTRAP, Value="33", Type="String")
    moto.client("iam").create_role(RoleName="ClusterAdmin", AssumeRolePolicyDocument="{}")

    found = list(account.findings(settings(), moto))

    assert {one.verdict for one in found} == {Verdict.FINE}


def test_a_bootstrap_that_is_too_old_would_fail(moto: Moto) -> None:
    moto.client("ssm").put_parameter(Name=account.BOOTSTRAP, Value="5", Type="String")

    found = by_what(account.findings(settings(), moto))

    assert "is version 5, must be at least 6" in found["bootstrap"].said


def test_settings_of_another_account_would_fail(moto: Moto) -> None:
    other = settings(("region: us", 'account: "111122223333"\nregion: us'))

    found = by_what(account.findings(other, moto))

    assert found["identity"].verdict is Verdict.FAILS
    assert "111122223333" in found["identity"].said


def test_a_boundary_that_is_no_policy_would_fail(moto: Moto) -> None:
    bounded = settings(("region: us", "permissionsBoundary: TeamBoundary\nregion: us"))

    assert by_what(account.findings(bounded, moto))["policy"].verdict is Verdict.FAILS

    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    moto.client("iam").create_policy(PolicyName="TeamBoundary", PolicyDocument=policy)

    assert by_what(account.findings(bounded, moto))["policy"].verdict is Verdict.FINE


def test_what_may_not_be_asked_is_unknown_and_the_rest_is_asked() -> None:
    aws = Answers()
    aws.answer(
        "sts",
        "get_caller_identity",
        {"Account": "111122223333", "Arn": "arn:aws:iam::111122223333:user/a"},
        {},
    )
    aws.refuse("ssm", "get_parameter", "AccessDeniedException")
    aws.refuse("iam", "get_role", "AccessDenied")

    found = by_what(account.findings(settings(), aws))

    assert found["identity"].verdict is Verdict.FINE
    assert found["bootstrap"].verdict is Verdict.UNKNOWN
    assert found["bootstrap"].said == "no permission for GetParameter"
    assert found["principal"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("status", "verdict", "said"),
    [
        ("STANDARD_SUPPORT", Verdict.FINE, "in standard support"),
        ("EXTENDED_SUPPORT", Verdict.FINE, "six times as much"),
        ("UNSUPPORTED", Verdict.FAILS, "no longer supported"),
    ],
)
def test_the_version_says_its_support_and_what_that_costs(
    status: str, verdict: Verdict, said: str
) -> None:
    aws = Answers()
    rows = [{"clusterVersion": "1.35", "versionStatus": status}]
    asked = {"clusterVersions": ["1.35"]}
    aws.answer("eks", "describe_cluster_versions", {"clusterVersions": rows}, asked)

    found = by_what(cluster.findings(settings(), aws))["EKS version"]

    assert found.verdict is verdict
    assert said in found.said


def test_a_version_that_eks_does_not_know_would_fail() -> None:
    aws = Answers()
    aws.answer("eks", "describe_cluster_versions", {"clusterVersions": []}, None)

    assert by_what(cluster.findings(settings(), aws))["EKS version"].verdict is Verdict.FAILS


def existing(**changes: Any) -> Answers:
    """An account with the cluster of EXISTING_CLUSTER, but for these fields."""
    aws = Answers()
    found: dict[str, Any] = {
        "version": "1.35",
        "endpoint": "https://abc.example.com",
        "certificateAuthority": {"data": "QUJD"},
        "resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0123456789abcdef0"},
        "accessConfig": {"authenticationMode": "API"},
        "status": "ACTIVE",
    }
    aws.answer("eks", "describe_cluster_versions", {"clusterVersions": []}, None)
    aws.answer("eks", "describe_cluster", {"cluster": found | changes}, {"name": "ours"})
    return aws


def test_an_existing_cluster_that_is_as_said_is_fine() -> None:
    found = by_what(cluster.findings(settings(EXISTING_CLUSTER), existing()))

    assert found["cluster"].verdict is Verdict.FINE


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"version": "1.34"}, "cluster.existing.version"),
        ({"endpoint": "https://other.example.com"}, "cluster.existing.endpoint"),
        ({"certificateAuthority": {"data": "WFla"}}, "cluster.existing.certificateAuthority"),
        (
            {"resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0"}},
            "cluster.existing.securityGroupId",
        ),
        ({"accessConfig": {"authenticationMode": "CONFIG_MAP"}}, "cluster.existing.name"),
    ],
)
def test_an_existing_cluster_that_is_otherwise_would_fail_by_its_field(
    changes: dict[str, Any], path: str
) -> None:
    found = by_what(cluster.findings(settings(EXISTING_CLUSTER), existing(**changes)))

    assert found["cluster"].verdict is Verdict.FAILS
    assert found["cluster"].subject == path


def test_a_cluster_that_is_not_there_would_fail() -> None:
    aws = Answers()
    aws.answer("eks", "describe_cluster_versions", {"clusterVersions": []}, None)
    aws.refuse("eks", "describe_cluster", "ResourceNotFoundException")

    found = by_what(cluster.findings(settings(EXISTING_CLUSTER), aws))

    assert "is no cluster of us-east-2" in found["cluster"].said


def test_zones_are_held_against_those_open_to_the_account(vpcs: Moto) -> None:
    assert by_what(network.findings(settings(), vpcs))["zones"].verdict is Verdict.FINE

    aws = Answers()
    zone = {"ZoneName": "us-east-2a", "ZoneId": "use2-az1", "State": "available"}
    aws.answer("ec2", "describe_availability_zones", {"AvailabilityZones": [zone]}, {})
    closed = by_what(network.findings(settings(), aws))["zones"]

    assert closed.verdict is Verdict.FAILS
    assert closed.subject == "use2-az3"


def with_network(moto: Moto, *, cidr: str = "10.0.0.0/16", zone: str = "use2-az1") -> Any:
    ec2 = moto.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    block = cidr.replace("/16", "/24")
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZoneId=zone)
    old, new = EXISTING_NETWORK
    found = new.replace("VPC", vpc).replace("SUBNET", subnet["Subnet"]["SubnetId"])
    return settings((old, found))


def test_a_network_that_is_as_said_is_fine(vpcs: Moto) -> None:
    found = list(network.findings(with_network(vpcs), vpcs))

    assert {one.what for one in found} == {"zones", "VPC", "subnets"}
    assert {one.verdict for one in found} == {Verdict.FINE}


def test_a_subnet_in_another_zone_would_fail(vpcs: Moto) -> None:
    found = by_what(network.findings(with_network(vpcs, zone="use2-az2"), vpcs))

    assert found["subnets"].verdict is Verdict.FAILS
    assert "is in use2-az2" in found["subnets"].said


def test_a_vpc_with_another_block_or_without_names_would_fail(vpcs: Moto) -> None:
    other = with_network(vpcs, cidr="10.9.0.0/16")

    found = [one for one in network.findings(other, vpcs) if one.what == "VPC"]

    assert "must be the VPC's, 10.9.0.0/16" in found[0].said

    assert isinstance(other.network, ExistingNetwork)
    names = {"Value": False}
    vpcs.client("ec2").modify_vpc_attribute(VpcId=other.network.vpc_id, EnableDnsHostnames=names)
    found = [one for one in network.findings(other, vpcs) if one.what == "VPC"]

    assert "enableDnsHostnames off" in found[-1].said


def test_a_subnet_that_is_not_there_would_fail(vpcs: Moto) -> None:
    there = with_network(vpcs)
    assert isinstance(there.network, ExistingNetwork)
    subnet = there.network.subnets["use2-az1"]
    vpcs.client("ec2").delete_subnet(SubnetId=subnet)

    found = by_what(network.findings(there, vpcs))

    assert found["subnets"].said == f"= {subnet}, is no subnet of this account and region"


def test_an_error_that_is_no_refusal_says_itself() -> None:
    aws = Answers()
    aws.refuse("sts", "get_caller_identity", "Throttling")
    aws.refuse("ssm", "get_parameter", "AccessDeniedException")
    aws.refuse("iam", "get_role", "AccessDenied")

    found = by_what(account.findings(settings(), aws))

    assert found["identity"].said == "GetCallerIdentity answered Throttling: as set down"
