"""Whether zones and the subnets of an existing network are there."""

from collections.abc import Iterator
from functools import partial

from neuronfleet.infra.commands.checks.aws import Aws, asked, pages
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings.model import ExistingNetwork, Settings

LEAST_ADDRESSES = 16
"""Free addresses of a subnet that EKS recommends for a control plane's interfaces."""
_NEEDED = {"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames"}


def findings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    """Zones, and VPC and subnets if they stand already."""
    yield from asked("zones", settings.region, partial(_zones, settings, aws))
    network = settings.network
    if isinstance(network, ExistingNetwork):
        yield from asked("VPC", network.vpc_id, partial(_vpc, network, aws))
        yield from asked("subnets", network.vpc_id, partial(_subnets, network, aws))


def zone_ids(aws: Aws) -> dict[str, str]:
    """ID of each zone that this account may use, by the account's own name for it."""
    found = aws.client("ec2").describe_availability_zones()["AvailabilityZones"]
    return {zone["ZoneName"]: zone["ZoneId"] for zone in found if zone["State"] == "available"}


def _zones(settings: Settings, aws: Aws) -> Iterator[Finding]:
    known = sorted(zone_ids(aws).values())
    missing = [zone for zone in settings.zones if zone not in known]
    for zone in missing:
        yield fails("zones", zone, f"is not open to this account; must be of {', '.join(known)}")
    if not missing:
        yield fine("zones", settings.region, ", ".join(settings.zones))


def _vpc(network: ExistingNetwork, aws: Aws) -> Iterator[Finding]:
    ec2 = aws.client("ec2")
    wanted = [{"Name": "vpc-id", "Values": [network.vpc_id]}]
    found = pages(ec2, "describe_vpcs", "Vpcs", Filters=wanted)
    if not found:
        yield fails("VPC", network.vpc_id, "is no VPC of this account and region")
        return
    if found[0]["CidrBlock"] != network.cidr:
        said = f"= {network.cidr}, must be the VPC's, {found[0]['CidrBlock']}"
        yield fails("VPC", "network.existing.cidr", said)
    for attribute, key in _NEEDED.items():
        answer = ec2.describe_vpc_attribute(VpcId=network.vpc_id, Attribute=attribute)
        if not answer[key]["Value"]:
            said = f"has {attribute} off: names of private endpoints resolve nowhere; turn it on"
            yield fails("VPC", network.vpc_id, said)
            return
    yield fine("VPC", network.vpc_id, found[0]["CidrBlock"])


def _subnets(network: ExistingNetwork, aws: Aws) -> Iterator[Finding]:
    wanted = [{"Name": "subnet-id", "Values": list(network.subnets.values())}]
    answer = pages(aws.client("ec2"), "describe_subnets", "Subnets", Filters=wanted)
    found = {subnet["SubnetId"]: subnet for subnet in answer}
    for zone, name in network.subnets.items():
        subnet, path = found.get(name), f"network.existing.subnets.{zone}"
        if subnet is None:
            yield fails("subnets", path, f"= {name}, is no subnet of this account and region")
        elif subnet["VpcId"] != network.vpc_id:
            said = f"= {name}, is of {subnet['VpcId']}; must be of {network.vpc_id}"
            yield fails("subnets", path, said)
        elif subnet["AvailabilityZoneId"] != zone:
            yield fails("subnets", path, f"= {name}, is in {subnet['AvailabilityZoneId']}")
        elif subnet["AvailableIpAddressCount"] < LEAST_ADDRESSES:
            free = subnet["AvailableIpAddressCount"]
            said = f"= {name}, has {free} free addresses, must have {LEAST_ADDRESSES} or more"
            yield fails("subnets", path, said)
        else:
            yield fine("subnets", path, f"{name}, {subnet['AvailableIpAddressCount']} free")
