"""The project's chart: controller and gateway, and the namespaces of fleets."""

from collections.abc import Mapping

from aws_cdk import Environment, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.addons.helm import TIMEOUT
from neuronfleet.infra.addons.manifests import fleets
from neuronfleet.infra.addons.sources import source
from neuronfleet.infra.addons.wildcards import acknowledge_resource
from neuronfleet.infra.charts import product
from neuronfleet.infra.charts.product import Pushed
from neuronfleet.infra.settings.model import Image, Settings
from neuronfleet.infra.stacks.facts import ClusterFacts, DataFacts


class ServingStack(Stack):
    """Only for recorded digests: what it installs is in the registry before it is asked for."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        env: Environment,
        data: DataFacts,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(scope, id, env=env, description="Controller, gateway, fleets' namespaces")
        homes = eks.KubernetesManifest(
            self,
            "FleetNamespaces",
            cluster=cluster.cluster,
            manifest=fleets.manifests(settings.serving),
            # A namespace takes its fleets along. It stays when this stack goes or the settings no
            # longer name it, and is taken over where it is there already.
            removal_policy=RemovalPolicy.RETAIN,
            prune=False,
            overwrite=True,
        )
        packed = assets.Asset(self, "Source", path=str(source(product.PATH)))
        chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster.cluster,
            chart_asset=packed,
            release=product.RELEASE,
            namespace=settings.serving.namespace,
            create_namespace=True,
            values=product.values(
                settings.serving, self._pushed(settings.images, data.repositories)
            ),
            # Green means that it runs; red leaves what there is for the next deployment to mend.
            wait=True,
            atomic=False,
            timeout=TIMEOUT,
        )
        chart.node.add_dependency(homes)
        _acknowledge_reading(cluster.cluster, packed)

    def _pushed(
        self, images: tuple[Image, ...], repositories: Mapping[str, ecr.IRepository]
    ) -> Mapping[str, Pushed]:
        """Recorded images, by name."""
        registry = f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}"
        return {
            image.name: Pushed(
                registry=registry,
                repository=repositories[image.name].repository_name,
                digest=image.digest,
            )
            for image in images
            if image.digest is not None
        }


def _acknowledge_reading(cluster: eks.ICluster, packed: assets.Asset) -> None:
    """The chart is read by the function that runs helm, whose role is the cluster's."""
    provider = cluster.kubectl_provider
    if provider is None or provider.role is None:
        return
    why = "CDK's own grant to read the chart, in the bucket that it publishes assets to"
    for action in ("GetObject*", "GetBucket*", "List*"):
        nag.acknowledge(provider.role, f"AwsSolutions-IAM5[Action::s3:{action}]", reason=why)
    acknowledge_resource(provider.role, packed.bucket.arn_for_objects("*"), reason=why)
