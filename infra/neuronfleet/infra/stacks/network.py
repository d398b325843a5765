"""The VPC that nodes stand in: a new one, or what an existing one needs."""

from collections.abc import Mapping

from aws_cdk import Annotations, Environment, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from neuronfleet.infra.network.default_group import LockedDefaultGroup
from neuronfleet.infra.network.endpoints import InterfaceEndpoints, s3_endpoint
from neuronfleet.infra.network.flow_logs import FlowLogs
from neuronfleet.infra.network.groups import efa_group
from neuronfleet.infra.network.nat import NatGateways
from neuronfleet.infra.network.subnets import NodeSubnets
from neuronfleet.infra.settings.model import ExistingNetwork, NewNetwork, Settings
from neuronfleet.infra.stacks.facts import NetworkFacts

NO_ROUTE_TABLE = "@aws-cdk/aws-ec2:noSubnetRouteTableId"


class NetworkStack(Stack):
    """Zones are zone IDs all through, so that no account is asked what its letters mean."""

    facts: NetworkFacts

    def __init__(self, scope: Construct, id: str, *, settings: Settings, env: Environment) -> None:
        super().__init__(scope, id, env=env, description="VPC, subnets, endpoints, EFA's group")
        given = settings.network
        self.facts = (
            self._existing(given)
            if isinstance(given, ExistingNetwork)
            else self._new(settings, given)
        )

    def _new(self, settings: Settings, wanted: NewNetwork) -> NetworkFacts:
        made = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=wanted.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=[{"key": "Name", "value": settings.name}],
        )
        nodes = NodeSubnets(
            self,
            "Nodes",
            vpc_id=made.ref,
            cidr=wanted.cidr,
            zones=settings.zones,
            name=settings.name,
        )
        vpc = _imported(
            self,
            "Network",
            made.ref,
            wanted.cidr,
            nodes.subnets,
            nodes.zone_names,
            nodes.route_tables,
        )
        gateways = NatGateways(
            self,
            "Nat",
            vpc_id=made.ref,
            cidr=wanted.cidr,
            zones=settings.zones,
            count=wanted.nat_gateways,
            nodes=nodes,
        ).ids
        s3_endpoint(self, made.ref, list(nodes.route_tables.values()))
        InterfaceEndpoints(self, "Endpoints", vpc=vpc, cidr=wanted.cidr, subnets=nodes.subnets)
        FlowLogs(self, "FlowLogs", vpc_id=made.ref, days=wanted.flow_log_days)
        LockedDefaultGroup(self, "DefaultGroup", group_id=made.attr_default_security_group)
        return NetworkFacts(
            vpc=vpc,
            subnets=nodes.subnets,
            efa_security_group=efa_group(self, made.ref),
            nat_gateways=gateways,
        )

    def _existing(self, given: ExistingNetwork) -> NetworkFacts:
        """Routes, flow logs and the default group stay as they are."""
        Annotations.of(self).acknowledge_warning(
            NO_ROUTE_TABLE, "Nothing is routed in a network that stands already."
        )
        zones = list(given.subnets)
        vpc = _imported(self, "Network", given.vpc_id, given.cidr, given.subnets, zones)
        if given.endpoints:
            InterfaceEndpoints(self, "Endpoints", vpc=vpc, cidr=given.cidr, subnets=given.subnets)
        return NetworkFacts(
            vpc=vpc,
            subnets=dict(given.subnets),
            efa_security_group=efa_group(self, given.vpc_id),
        )


def _imported(
    scope: Construct,
    id: str,
    vpc_id: str,
    cidr: str,
    subnets: Mapping[str, str],
    zones: list[str],
    route_tables: Mapping[str, str] | None = None,
) -> ec2.IVpc:
    """As constructs take it that want a VPC; nothing is looked up."""
    return ec2.Vpc.from_vpc_attributes(
        scope,
        id,
        vpc_id=vpc_id,
        vpc_cidr_block=cidr,
        availability_zones=zones,
        private_subnet_ids=list(subnets.values()),
        private_subnet_route_table_ids=list(route_tables.values()) if route_tables else None,
    )
