"""The EKS cluster: a new one, or what an existing one needs to be deployed to.

Behind the private endpoint the way in is Session Manager: system nodes carry
AmazonSSMManagedInstanceCore and stand in the cluster's security group, and the output `Tunnel`
forwards a local port through one of them. There is no bastion, no SSH and no key.
"""

from aws_cdk import CfnOutput, Environment, Fn, Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from neuronfleet.infra.cluster import access, kubectl, versions
from neuronfleet.infra.cluster.control_plane import ControlPlane
from neuronfleet.infra.cluster.pinned_addons import PinnedAddons
from neuronfleet.infra.cluster.system_nodes import SystemNodeGroup
from neuronfleet.infra.settings.model import ExistingCluster, NewCluster, Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts


class ClusterStack(Stack):
    """Of an existing cluster only the kubectl function and its access entry are made."""

    facts: ClusterFacts

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        env: Environment,
        network: NetworkFacts,
    ) -> None:
        super().__init__(scope, id, env=env, description="EKS cluster and system nodes")
        wanted = settings.cluster
        if isinstance(wanted, ExistingCluster):
            self.facts = self._facts(
                wanted.version,
                network,
                name=wanted.name,
                endpoint=wanted.endpoint,
                authority=wanted.certificate_authority,
                group=wanted.security_group_id,
            )
        else:
            made = self._new(settings, wanted, network)
            self.facts = self._facts(
                wanted.version,
                network,
                name=made.ref,
                endpoint=made.attr_endpoint,
                authority=made.attr_certificate_authority_data,
                group=made.attr_cluster_security_group_id,
            )
        self._ways_in(settings)

    def _new(self, settings: Settings, wanted: NewCluster, network: NetworkFacts) -> eks.CfnCluster:
        subnets = list(network.subnets.values())
        cluster = ControlPlane(
            self,
            "ControlPlane",
            name=naming.cluster(settings),
            wanted=wanted,
            subnets=subnets,
            log_days=settings.observability.log_days,
        ).resource
        addons = PinnedAddons(
            self, "Addons", cluster=cluster.ref, versions=versions.of(wanted.version)
        )
        nodes = SystemNodeGroup(
            self,
            "System",
            cluster=cluster.ref,
            name=f"{settings.name}-system",
            wanted=wanted.system_nodes,
            subnets=subnets,
            tags=naming.tags(settings),
        ).resource
        for addon in addons.before_nodes:
            nodes.add_resource_dependency(addon)
        addons.dns.add_resource_dependency(nodes)
        for admin in wanted.admins:
            access.administer(
                self,
                access.construct_id(admin.arn),
                cluster=cluster.ref,
                principal=access.arn(admin.arn),
            )
        return cluster

    def _facts(
        self,
        version: str,
        network: NetworkFacts,
        *,
        name: str,
        endpoint: str,
        authority: str,
        group: str,
    ) -> ClusterFacts:
        """As other stacks take it: new or existing, constructs are handed an import."""

        def imported(id: str, provider: eks.IKubectlProvider | None = None) -> eks.ICluster:
            return eks.Cluster.from_cluster_attributes(
                self,
                id,
                cluster_name=name,
                cluster_endpoint=endpoint,
                cluster_certificate_authority_data=authority,
                cluster_security_group_id=group,
                vpc=network.vpc,
                kubectl_provider=provider,
            )

        provider = kubectl.provider(
            self,
            cluster=imported("Bare"),
            name=name,
            version=versions.of(version).kubectl,
            vpc=network.vpc,
        )
        return ClusterFacts(
            name=name,
            version=version,
            endpoint=endpoint,
            certificate_authority=authority,
            security_group_id=group,
            cluster=imported("Known", provider),
        )

    def _ways_in(self, settings: Settings) -> None:
        """Commands, so that nobody has to put them together."""
        host = Fn.select(1, Fn.split("https://", self.facts.endpoint))
        CfnOutput(
            self,
            "Tunnel",
            value="aws ssm start-session --target INSTANCE "
            "--document-name AWS-StartPortForwardingSessionToRemoteHost "
            f"--parameters host={host},portNumber=443,localPortNumber=8443 "
            f"--region {settings.region}",
            description="Way to the private endpoint; INSTANCE is any system node",
        )
        CfnOutput(
            self,
            "Kubeconfig",
            value=f"aws eks update-kubeconfig --name {self.facts.name} --region {settings.region}",
            description="Writes the kubeconfig; behind the tunnel its server is localhost:8443",
        )
