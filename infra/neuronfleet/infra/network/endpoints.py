"""Ways to AWS that need no internet; what goes to S3 costs nothing."""

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

SERVICES = (
    "aps-workspaces",  # metrics, written and read
    "ec2",  # the VPC CNI and Karpenter
    "ecr.api",
    "ecr.dkr",
    "eks",  # nodes ask for their cluster
    "eks-auth",  # Pod Identity
    "lambda",  # what applies manifests and charts is called in two steps
    "logs",
    "sqs",  # Karpenter's notices of interruption
    "ssm",  # sessions, the way in behind a private endpoint
    "ssmmessages",  # the agent needs no ec2messages beside it since 3.3.40
    "sts",
)
HTTPS = 443


def s3_endpoint(scope: Construct, vpc_id: str, route_tables: Sequence[str]) -> None:
    """Weights, graphs and image layers come by this gateway, which costs nothing."""
    ec2.CfnVPCEndpoint(
        scope,
        "S3",
        vpc_id=vpc_id,
        service_name=f"com.amazonaws.{Stack.of(scope).region}.s3",
        vpc_endpoint_type="Gateway",
        route_table_ids=list(route_tables),
    )


class InterfaceEndpoints(Construct):
    """One a service, with an interface in each node subnet, reached from the VPC alone."""

    def __init__(
        self, scope: Construct, id: str, *, vpc: ec2.IVpc, cidr: str, subnets: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        group = self._group(vpc.vpc_id, cidr)
        for service in SERVICES:
            ec2.CfnVPCEndpoint(
                self,
                service,
                vpc_id=vpc.vpc_id,
                service_name=f"com.amazonaws.{Stack.of(self).region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                security_group_ids=[group],
                subnet_ids=list(subnets.values()),
            )

    def _group(self, vpc_id: str, cidr: str) -> str:
        ingress = ec2.CfnSecurityGroup.IngressProperty(
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            cidr_ip=cidr,
            description="The VPC",
        )
        # EC2 allows all egress where none is given; an endpoint opens no connection.
        nowhere = ec2.CfnSecurityGroup.EgressProperty(
            ip_protocol="icmp",
            from_port=252,
            to_port=86,
            cidr_ip="255.255.255.255/32",
            description="Nowhere",
        )
        return ec2.CfnSecurityGroup(
            self,
            "Group",
            group_description="AWS endpoints: HTTPS from the VPC",
            vpc_id=vpc_id,
            security_group_ingress=[ingress],
            security_group_egress=[nowhere],
        ).attr_group_id
