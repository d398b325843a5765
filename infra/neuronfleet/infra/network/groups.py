"""Security group of EFA interfaces."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


def efa_group(scope: Construct, vpc_id: str) -> ec2.ISecurityGroup:
    """All traffic to and from itself: EFA drops what a rule allows by address alone."""
    group = ec2.CfnSecurityGroup(
        scope,
        "Efa",
        group_description="EFA: all traffic to and from itself",
        vpc_id=vpc_id,
        # Given apart below; without one here EC2 would allow all egress.
        security_group_egress=[
            ec2.CfnSecurityGroup.EgressProperty(
                ip_protocol="icmp",
                from_port=252,
                to_port=86,
                cidr_ip="255.255.255.255/32",
                description="Nowhere",
            )
        ],
    )
    ec2.CfnSecurityGroupIngress(
        scope,
        "EfaIn",
        group_id=group.attr_group_id,
        ip_protocol="-1",
        source_security_group_id=group.attr_group_id,
        description="EFA",
    )
    ec2.CfnSecurityGroupEgress(
        scope,
        "EfaOut",
        group_id=group.attr_group_id,
        ip_protocol="-1",
        destination_security_group_id=group.attr_group_id,
        description="EFA",
    )
    return ec2.SecurityGroup.from_security_group_id(
        scope, "EfaGroup", group.attr_group_id, mutable=False
    )
