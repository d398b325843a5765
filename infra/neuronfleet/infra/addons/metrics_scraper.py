"""The managed scraper: metrics of devices and of Karpenter, which no policy shuts it out from."""

import yaml
from aws_cdk import Fn
from aws_cdk import aws_aps as aps
from constructs import Construct

from neuronfleet.infra.addons.manifests import scrape
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts

_INTERVAL_S = 30
"""The shortest that its documentation shows; nothing is decided by these series."""


def configuration() -> str:
    """Its scrape configuration, which knows fewer fields than Prometheus' own."""
    document = {
        "global": {"scrape_interval": f"{_INTERVAL_S}s"},
        "scrape_configs": scrape.infrastructure_jobs(),
    }
    return yaml.safe_dump(document, sort_keys=False)


class MetricsScraper(Construct):
    """One scraper, with an interface in each zone's subnet.

    It gives itself an access entry on a cluster whose authentication mode is the API.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment: str,
        workspace_arn: str,
        network: NetworkFacts,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(scope, id)
        aps.CfnScraper(
            self,
            "Scraper",
            alias=deployment,
            destination=aps.CfnScraper.DestinationProperty(
                amp_configuration=aps.CfnScraper.AmpConfigurationProperty(
                    workspace_arn=workspace_arn
                )
            ),
            source=aps.CfnScraper.SourceProperty(
                eks_configuration=aps.CfnScraper.EksConfigurationProperty(
                    cluster_arn=cluster.cluster.cluster_arn,
                    security_group_ids=[cluster.security_group_id],
                    subnet_ids=list(network.subnets.values()),
                )
            ),
            scrape_configuration=aps.CfnScraper.ScrapeConfigurationProperty(
                configuration_blob=Fn.base64(configuration())
            ),
        )
