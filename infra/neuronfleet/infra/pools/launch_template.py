"""The launch template of a node group: what EC2 starts, and out of which capacity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from neuronfleet.infra.pools.interfaces import Interface, Kind, interfaces
from neuronfleet.infra.pools.node_config import user_data
from neuronfleet.infra.settings.model import Pool
from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api.variant import CapacityType

Template = ec2.CfnLaunchTemplate
ROOT_DEVICE = "/dev/xvda"
"""Root volume of Amazon Linux 2023."""
HOP_LIMIT = 1
"""Pods that do not run in the host's network reach no instance credentials."""
_TAGGED = ("instance", "volume", "network-interface")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Security groups of a node's interfaces."""

    cluster: str
    """What EKS gives nodes and control plane."""
    efa: str
    """All traffic to and from itself, which EFA demands."""


def launch_template(
    scope: Construct,
    *,
    name: str,
    pool: Pool,
    offer: Offer,
    groups: Groups,
    placement_group: str | None,
    tags: Mapping[str, str],
) -> ec2.CfnLaunchTemplate:
    """The template, without image, key pair, profile or subnet: those are EKS's, or nobody's."""
    found = interfaces(offer, pool.efa)
    data = Template.LaunchTemplateDataProperty(
        # Beside AL2023_x86_64_NEURON the node group itself refuses trn2 types, and a capacity
        # block's type has to stand in the template.
        instance_type=pool.instance_type,
        metadata_options=Template.MetadataOptionsProperty(
            http_endpoint="enabled",
            http_tokens="required",
            http_put_response_hop_limit=HOP_LIMIT,
        ),
        block_device_mappings=[_root(pool.root_gib)],
        network_interfaces=[_interface(one, groups, single=len(found) == 1) for one in found],
        placement=Template.PlacementProperty(group_name=placement_group)
        if placement_group
        else None,
        capacity_reservation_specification=_reservation(pool),
        instance_market_options=_market(pool),
        user_data=user_data(pool, offer),
        tag_specifications=_tagged({**tags, "Name": name, "neuronfleet.dev/pool": pool.name}),
    )
    return Template(scope, "Template", launch_template_data=data)


def _root(gib: int) -> ec2.CfnLaunchTemplate.BlockDeviceMappingProperty:
    volume = Template.EbsProperty(
        volume_size=gib, volume_type="gp3", encrypted=True, delete_on_termination=True
    )
    return Template.BlockDeviceMappingProperty(device_name=ROOT_DEVICE, ebs=volume)


def _interface(
    one: Interface, groups: Groups, *, single: bool
) -> ec2.CfnLaunchTemplate.NetworkInterfaceProperty:
    """One interface with its own groups: beside interfaces, groups of the template are refused."""
    return Template.NetworkInterfaceProperty(
        network_card_index=one.card,
        device_index=one.device,
        interface_type=one.kind.value,
        groups=[groups.cluster if one.kind is Kind.ENA else groups.efa],
        delete_on_termination=True,
        # RunInstances takes this beside a single interface only; with several there is none.
        associate_public_ip_address=False if single else None,
    )


def _reservation(
    pool: Pool,
) -> ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty | None:
    if pool.block is None:
        return None
    target = Template.CapacityReservationTargetProperty(capacity_reservation_id=pool.block.id)
    return Template.CapacityReservationSpecificationProperty(capacity_reservation_target=target)


def _market(pool: Pool) -> ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty | None:
    if pool.capacity is not CapacityType.CAPACITY_BLOCK:
        return None
    return Template.InstanceMarketOptionsProperty(market_type=CapacityType.CAPACITY_BLOCK.value)


def _tagged(
    tags: Mapping[str, str],
) -> Sequence[ec2.CfnLaunchTemplate.TagSpecificationProperty]:
    listed = [CfnTag(key=key, value=value) for key, value in sorted(tags.items())]
    return [Template.TagSpecificationProperty(resource_type=kind, tags=listed) for kind in _TAGGED]
