import ipaddress
import json

import pytest

from tests.infra.stacks.base import ZONES, properties, resources, template

SUBNET = "AWS::EC2::Subnet"
ENDPOINT = "AWS::EC2::VPCEndpoint"
NAT = "AWS::EC2::NatGateway"
NOWHERE = "255.255.255.255/32"


def subnets(variant: str = "full", *, public: bool) -> list[dict[str, object]]:
    return [
        one["Properties"]
        for name, one in resources("Network", SUBNET, variant).items()
        if ("Public" in name) is public
    ]


def test_every_subnet_is_placed_by_zone_id_and_no_zone_is_named() -> None:
    found = properties("Network", SUBNET)

    assert {one["AvailabilityZoneId"] for one in found} == set(ZONES)
    assert not [one for one in found if "AvailabilityZone" in one]


def test_nodes_have_a_19_in_each_zone_and_no_blocks_overlap() -> None:
    nodes = [ipaddress.ip_network(str(one["CidrBlock"])) for one in subnets(public=False)]
    every = nodes + [ipaddress.ip_network(str(one["CidrBlock"])) for one in subnets(public=True)]

    assert [one.prefixlen for one in nodes] == [19, 19, 19]
    assert not [(a, b) for a in every for b in every if a is not b and a.overlaps(b)]


@pytest.mark.parametrize(("variant", "count"), [("full", 1), ("a-nat-a-zone", 3)])
def test_public_subnets_are_there_for_nat_gateways_alone(variant: str, count: int) -> None:
    assert len(subnets(variant, public=True)) == count
    assert len(properties("Network", NAT, variant)) == count
    assert len(properties("Network", "AWS::EC2::InternetGateway", variant)) == 1


def test_every_zone_has_a_way_out_though_there_is_one_gateway() -> None:
    out = [one for one in properties("Network", "AWS::EC2::Route") if "NatGatewayId" in one]

    assert len({json.dumps(one["RouteTableId"]) for one in out}) == 3
    assert len({json.dumps(one["NatGatewayId"]) for one in out}) == 1


def test_no_instance_gets_a_public_address() -> None:
    assert {one["MapPublicIpOnLaunch"] for one in properties("Network", SUBNET)} == {False}


def test_nodes_reach_what_they_need_over_endpoints_in_every_zone() -> None:
    found = properties("Network", ENDPOINT)
    interface = [one for one in found if one["VpcEndpointType"] == "Interface"]
    (gateway,) = (one for one in found if one["VpcEndpointType"] == "Gateway")

    services = {one["ServiceName"].removeprefix("com.amazonaws.us-east-2.") for one in interface}
    assert services >= {"ecr.api", "ecr.dkr", "sts", "eks", "eks-auth", "ec2", "logs", "ssm"}
    assert services >= {"ssmmessages", "aps-workspaces", "sqs", "lambda"}
    assert all(one["PrivateDnsEnabled"] and len(one["SubnetIds"]) == 3 for one in interface)
    assert gateway["ServiceName"] == "com.amazonaws.us-east-2.s3"
    assert len(gateway["RouteTableIds"]) == 3


def test_nothing_is_open_to_everyone() -> None:
    groups = properties("Network", "AWS::EC2::SecurityGroup")
    rules = properties("Network", "AWS::EC2::SecurityGroupIngress")
    ingress = [rule for one in groups for rule in one.get("SecurityGroupIngress", [])]

    assert {rule["CidrIp"] for rule in ingress} == {"10.0.0.0/16"}
    assert not [rule for rule in rules if "CidrIp" in rule or "CidrIpv6" in rule]


def test_no_group_has_the_egress_that_ec2_gives_by_default() -> None:
    for group in properties("Network", "AWS::EC2::SecurityGroup"):
        assert [rule["CidrIp"] for rule in group["SecurityGroupEgress"]] == [NOWHERE]


def test_efa_interfaces_talk_among_themselves_alone() -> None:
    (into,) = properties("Network", "AWS::EC2::SecurityGroupIngress")
    (out,) = properties("Network", "AWS::EC2::SecurityGroupEgress")

    assert into["IpProtocol"] == out["IpProtocol"] == "-1"
    assert into["GroupId"] == into["SourceSecurityGroupId"]
    assert out["GroupId"] == out["DestinationSecurityGroupId"] == into["GroupId"]


def test_flow_logs_take_all_traffic_and_outlive_the_vpc() -> None:
    (flow,) = properties("Network", "AWS::EC2::FlowLog")
    kept = [
        one
        for one in resources("Network", "AWS::Logs::LogGroup").values()
        if one["DeletionPolicy"] == "Retain"
    ]

    assert flow["TrafficType"] == "ALL"
    assert [one["Properties"]["RetentionInDays"] for one in kept] == [90]


def test_the_default_group_is_emptied_by_a_function_that_may_change_no_other() -> None:
    (rules,) = properties("Network", "Custom::VpcRestrictDefaultSG")
    (changes,) = (
        statement
        for role in properties("Network", "AWS::IAM::Role")
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "ec2:RevokeSecurityGroupIngress" in statement["Action"]
    )

    assert rules["DefaultSecurityGroupId"]["Fn::GetAtt"][1] == "DefaultSecurityGroup"
    assert rules["DefaultSecurityGroupId"] in changes["Resource"]["Fn::Join"][1]


def test_of_a_standing_network_nothing_is_made_but_the_efa_group() -> None:
    made = {one["Type"] for one in template("Network", "standing-network")["Resources"].values()}

    assert made == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    }


def test_a_standing_network_without_nat_gets_endpoints_if_it_asks_for_them() -> None:
    found = properties("Network", ENDPOINT, "standing-network-endpoints")

    assert len(found) == 12
    assert {one["VpcId"] for one in found} == {"vpc-0123456789abcdef0"}
