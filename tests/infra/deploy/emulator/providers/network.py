"""EC2 types that stock moto's models lack, or lack parts of: zone IDs, launch template data."""

from typing import Any

from tests.infra.deploy.emulator.registry import Made, Request, creates


def _tags(kind: str, tags: Any) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tags}] if tags else []


@creates("AWS::EC2::Subnet")
def subnet(request: Request) -> Made:
    """A subnet in a zone by name or by ID; stock moto's model ignores IDs."""
    properties = request.properties
    kept = {
        key: properties[key]
        for key in ("AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "VpcId")
        if key in properties
    }
    ec2 = request.client("ec2")
    made = ec2.create_subnet(**kept, TagSpecifications=_tags("subnet", properties.get("Tags")))[
        "Subnet"
    ]
    if properties.get("MapPublicIpOnLaunch"):
        ec2.modify_subnet_attribute(SubnetId=made["SubnetId"], MapPublicIpOnLaunch={"Value": True})
    return Made(
        ref=made["SubnetId"],
        attributes={
            "AvailabilityZone": made["AvailabilityZone"],
            "AvailabilityZoneId": made["AvailabilityZoneId"],
            "CidrBlock": made["CidrBlock"],
            "SubnetId": made["SubnetId"],
            "VpcId": made["VpcId"],
        },
    )


PEERS = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}
"""How a rule names its other side, in CloudFormation and in EC2's API."""


@creates("AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress")
def rule(request: Request) -> Made:
    """A rule of a group that exists; EC2 refuses a second one that says the same."""
    properties = request.properties
    permission: dict[str, Any] = {"IpProtocol": properties["IpProtocol"]}
    for port in ("FromPort", "ToPort"):
        if port in properties:
            permission[port] = properties[port]
    for key, (name, inner) in PEERS.items():
        if key in properties:
            permission[name] = [{inner: properties[key]}]
    ec2 = request.client("ec2")
    out = request.type.endswith("Egress")
    allow = ec2.authorize_security_group_egress if out else ec2.authorize_security_group_ingress
    made = allow(GroupId=properties["GroupId"], IpPermissions=[permission])
    name = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
    return Made(ref=name, attributes={"Id": name})


@creates("AWS::EC2::LaunchTemplate")
def launch_template(request: Request) -> Made:
    """A launch template whose data botocore has checked, and whose groups exist."""
    data = request.properties["LaunchTemplateData"]
    ec2 = request.client("ec2")
    groups = set(data.get("SecurityGroupIds", []))
    for interface in data.get("NetworkInterfaces", []):
        groups |= set(interface.get("Groups", []))
    if groups:
        ec2.describe_security_groups(GroupIds=sorted(groups))
    made = ec2.create_launch_template(
        LaunchTemplateName=request.name("LaunchTemplateName"),
        LaunchTemplateData=data,
        TagSpecifications=request.properties.get("TagSpecifications", []),
    )["LaunchTemplate"]
    return Made(
        ref=made["LaunchTemplateId"],
        attributes={
            "DefaultVersionNumber": str(made["DefaultVersionNumber"]),
            "LatestVersionNumber": str(made["LatestVersionNumber"]),
            "LaunchTemplateId": made["LaunchTemplateId"],
        },
    )
