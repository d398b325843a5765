"""Nodes for everything that needs no Neuron device: DNS, Karpenter, controller, gateway."""

from collections.abc import Mapping, Sequence

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from constructs import Construct

from neuronfleet.infra.pools.launch_template import HOP_LIMIT, ROOT_DEVICE
from neuronfleet.infra.pools.node_group import node_role
from neuronfleet.infra.settings.model import SystemNodes

LABEL = "neuronfleet.dev/pool"
_ROOT_GIB = 50
_TAGGED = ("instance", "volume", "network-interface")
_Template = ec2.CfnLaunchTemplate


class SystemNodeGroup(Construct):
    """Also the way in behind a private endpoint: Session Manager forwards a port through a node."""

    resource: eks.CfnNodegroup

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: str,
        name: str,
        wanted: SystemNodes,
        subnets: Sequence[str],
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        template = self._template({**tags, "Name": name, LABEL: "system"}, wanted.instance_type)
        self.resource = eks.CfnNodegroup(
            self,
            "NodeGroup",
            cluster_name=cluster,
            nodegroup_name=name,
            node_role=node_role(self).role_arn,
            subnets=list(subnets),
            ami_type="AL2023_x86_64_STANDARD",
            release_version=wanted.ami_release,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.ref, version=template.attr_latest_version_number
            ),
            # EKS takes all three sizes or none. Nothing else scales this group, so that a change of
            # its bounds sets it to what it had.
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                min_size=wanted.least, max_size=wanted.most, desired_size=wanted.least
            ),
            update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
            labels={LABEL: "system"},
        )

    def _template(self, tags: Mapping[str, str], instance_type: str) -> ec2.CfnLaunchTemplate:
        root = _Template.BlockDeviceMappingProperty(
            device_name=ROOT_DEVICE,
            ebs=_Template.EbsProperty(
                volume_size=_ROOT_GIB, volume_type="gp3", encrypted=True, delete_on_termination=True
            ),
        )
        listed = [CfnTag(key=key, value=value) for key, value in sorted(tags.items())]
        data = _Template.LaunchTemplateDataProperty(
            instance_type=instance_type,
            block_device_mappings=[root],
            metadata_options=_Template.MetadataOptionsProperty(
                http_endpoint="enabled",
                http_tokens="required",
                http_put_response_hop_limit=HOP_LIMIT,
            ),
            tag_specifications=[
                _Template.TagSpecificationProperty(resource_type=kind, tags=listed)
                for kind in _TAGGED
            ],
        )
        return _Template(self, "Template", launch_template_data=data)
