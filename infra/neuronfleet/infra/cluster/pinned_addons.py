"""EKS's add-ons, each of one version: nothing of them changes but by a deployment."""

import json
from collections.abc import Mapping

from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.addons.pod_identity import pods
from neuronfleet.infra.cluster.versions import Versions

CNI_POLICY = "AmazonEKS_CNI_Policy"


class PinnedAddons(Construct):
    """Networking and Pod Identity before there are nodes; DNS, which needs nodes, after them."""

    before_nodes: list[eks.CfnAddon]
    dns: eks.CfnAddon

    def __init__(self, scope: Construct, id: str, *, cluster: str, versions: Versions) -> None:
        super().__init__(scope, id)
        self._cluster = cluster
        cni = eks.CfnAddon.PodIdentityAssociationProperty(
            role_arn=self._cni_role().role_arn, service_account="aws-node"
        )
        agent = self._addon("eks-pod-identity-agent", versions.pod_identity_agent)
        # Policies are stored and not kept without this.
        network = self._addon(
            "vpc-cni", versions.vpc_cni, identities=[cni], values={"enableNetworkPolicy": "true"}
        )
        network.add_resource_dependency(agent)
        self.before_nodes = [agent, network, self._addon("kube-proxy", versions.kube_proxy)]
        self.dns = self._addon("coredns", versions.coredns)

    def _addon(
        self,
        name: str,
        version: str,
        identities: list[eks.CfnAddon.PodIdentityAssociationProperty] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> eks.CfnAddon:
        return eks.CfnAddon(
            self,
            name,
            addon_name=name,
            addon_version=version,
            cluster_name=self._cluster,
            configuration_values=None if values is None else json.dumps(values),
            pod_identity_associations=identities,
            resolve_conflicts="OVERWRITE",
        )

    def _cni_role(self) -> iam.Role:
        """The CNI plugin's own, so that nodes have no right to change network interfaces."""
        role = iam.Role(
            self,
            "CniRole",
            assumed_by=pods(self._cluster, ["kube-system"], "aws-node"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(CNI_POLICY)],
        )
        nag.acknowledge(
            role,
            f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{CNI_POLICY}]",
            reason="What the CNI plugin needs is kept by AWS and changes with the plugin.",
        )
        return role
