"""The way out to the internet; without NAT gateways there is no public subnet at all."""

from collections.abc import Sequence

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from neuronfleet.infra.network.plan import public_cidrs
from neuronfleet.infra.network.subnets import NodeSubnets

EVERYWHERE = "0.0.0.0/0"


class NatGateways(Construct):
    """Gateways in the first zones; a zone without one routes to another's."""

    ids: tuple[str, ...]

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc_id: str,
        cidr: str,
        zones: Sequence[str],
        count: int,
        nodes: NodeSubnets,
    ) -> None:
        """Gateways, their public subnets and the nodes' routes.

        Args:
            scope: Where they stand.
            id: Their name in it.
            vpc_id: The VPC.
            cidr: Its block.
            zones: Of the nodes.
            count: Of gateways, from 1 to one a zone.
            nodes: Subnets that are to reach the internet.
        """
        super().__init__(scope, id)
        self._vpc = vpc_id
        table, out = self._internet()
        homes = public_cidrs(cidr, zones[:count])
        self.ids = tuple(self._gateway(zone, block, table, out) for zone, block in homes.items())
        for place, zone in enumerate(zones):
            ec2.CfnRoute(
                self,
                f"Out-{zone}",
                route_table_id=nodes.route_tables[zone],
                destination_cidr_block=EVERYWHERE,
                nat_gateway_id=self.ids[place % count],
            )

    def _internet(self) -> tuple[str, ec2.CfnRoute]:
        """Route table of the public subnets, and its one route."""
        internet = ec2.CfnInternetGateway(self, "Internet")
        attached = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=self._vpc, internet_gateway_id=internet.ref
        )
        table = ec2.CfnRouteTable(
            self, "Routes", vpc_id=self._vpc, tags=[CfnTag(key="Name", value="public")]
        )
        out = ec2.CfnRoute(
            self,
            "Route",
            route_table_id=table.ref,
            destination_cidr_block=EVERYWHERE,
            gateway_id=internet.ref,
        )
        out.add_resource_dependency(attached)
        return table.ref, out

    def _gateway(self, zone: str, block: str, table: str, out: ec2.CfnRoute) -> str:
        subnet = ec2.CfnSubnet(
            self,
            f"Public-{zone}",
            vpc_id=self._vpc,
            cidr_block=block,
            availability_zone_id=zone,
            map_public_ip_on_launch=False,
            tags=[CfnTag(key="Name", value=f"public-{zone}")],
        )
        ec2.CfnSubnetRouteTableAssociation(
            self, f"Association-{zone}", route_table_id=table, subnet_id=subnet.ref
        )
        address = ec2.CfnEIP(self, f"Address-{zone}", domain="vpc")
        gateway = ec2.CfnNatGateway(
            self, f"Nat-{zone}", allocation_id=address.attr_allocation_id, subnet_id=subnet.ref
        )
        gateway.add_resource_dependency(out)
        return gateway.ref
