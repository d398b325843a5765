"""The Prometheus that the controller asks, and its right to send samples on."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from neuronfleet.infra.addons.manifests import prometheus
from neuronfleet.infra.addons.metrics_workspace import RULES, MetricsWorkspace
from neuronfleet.infra.addons.pod_identity import PodIdentity
from neuronfleet.infra.addons.sources import source
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts


class Prometheus(Construct):
    """One pod; see `addons.manifests.prometheus` for why it is there at all."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        workspace: MetricsWorkspace,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(scope, id)
        identity = PodIdentity(
            self,
            "Pods",
            cluster_name=cluster.name,
            namespaces=(prometheus.NAMESPACE,),
            service_account=prometheus.NAME,
        )
        write = iam.Policy(
            self,
            "Write",
            roles=[identity.role],
            statements=[
                iam.PolicyStatement(
                    sid="SendSamples", actions=["aps:RemoteWrite"], resources=[workspace.arn]
                )
            ],
        )
        objects = eks.KubernetesManifest(
            self,
            "Objects",
            cluster=cluster.cluster,
            manifest=prometheus.manifests(
                rules=source(RULES).read_text(encoding="utf-8"),
                remote_write=workspace.remote_write,
                region=settings.region,
                cluster=naming.cluster(settings),
            ),
        )
        # A pod gets its identity as it starts.
        objects.node.add_dependency(identity, write)
