"""Private subnets for nodes, one a zone, each with a route table of its own."""

from collections.abc import Mapping, Sequence

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from neuronfleet.infra.network.plan import node_cidrs


class NodeSubnets(Construct):
    """L1 throughout: only CloudFormation's own type takes a zone by its ID."""

    subnets: Mapping[str, str]
    """By zone ID."""
    route_tables: Mapping[str, str]
    """By zone ID."""
    zone_names: list[str]
    """In the zones' order; known when deployed."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc_id: str,
        cidr: str,
        zones: Sequence[str],
        name: str,
    ) -> None:
        super().__init__(scope, id)
        made = {
            zone: self._subnet(zone, block, vpc_id, f"{name}-nodes-{zone}")
            for zone, block in node_cidrs(cidr, zones).items()
        }
        self.subnets = {zone: one.ref for zone, one in made.items()}
        self.zone_names = [one.attr_availability_zone for one in made.values()]
        self.route_tables = {
            zone: self._routes(zone, vpc_id, one.ref, f"{name}-nodes-{zone}")
            for zone, one in made.items()
        }

    def _subnet(self, zone: str, block: str, vpc_id: str, name: str) -> ec2.CfnSubnet:
        return ec2.CfnSubnet(
            self,
            f"Subnet-{zone}",
            vpc_id=vpc_id,
            cidr_block=block,
            availability_zone_id=zone,
            map_public_ip_on_launch=False,
            tags=[
                CfnTag(key="Name", value=name),
                # Where Kubernetes puts internal load balancers.
                CfnTag(key="kubernetes.io/role/internal-elb", value="1"),
            ],
        )

    def _routes(self, zone: str, vpc_id: str, subnet: str, name: str) -> str:
        table = ec2.CfnRouteTable(
            self, f"Routes-{zone}", vpc_id=vpc_id, tags=[CfnTag(key="Name", value=name)]
        )
        ec2.CfnSubnetRouteTableAssociation(
            self, f"Association-{zone}", route_table_id=table.ref, subnet_id=subnet
        )
        return table.ref
