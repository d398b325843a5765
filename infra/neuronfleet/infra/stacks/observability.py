"""Metrics, alarms and the budget."""

from aws_cdk import Environment, Stack
from constructs import Construct

from neuronfleet.infra.addons.alarm_topic import AlarmTopic, ObservabilityKey
from neuronfleet.infra.addons.alarms import Alarms
from neuronfleet.infra.addons.budget import Budget
from neuronfleet.infra.addons.metrics_scraper import MetricsScraper
from neuronfleet.infra.addons.metrics_workspace import MetricsWorkspace
from neuronfleet.infra.addons.prometheus import Prometheus
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts


class ObservabilityStack(Stack):
    """Managed Prometheus with its scraper, the controller's Prometheus, alarms, the budget."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        env: Environment,
        network: NetworkFacts,
        cluster: ClusterFacts,
    ) -> None:
        super().__init__(scope, id, env=env, description="Metrics, alarms and the budget")
        wanted = settings.observability
        key = ObservabilityKey(self, "Encryption").key
        workspace = MetricsWorkspace(
            self, "Metrics", deployment=settings.name, key=key, log_days=wanted.log_days
        )
        MetricsScraper(
            self,
            "Devices",
            deployment=settings.name,
            workspace_arn=workspace.arn,
            network=network,
            cluster=cluster,
        )
        Prometheus(self, "Prometheus", settings=settings, workspace=workspace, cluster=cluster)
        topic = AlarmTopic(self, "Alarms", key=key, email=wanted.alarm_email).topic
        Alarms(self, "Watches", settings=settings, network=network, cluster=cluster, topic=topic)
        if wanted.budget_usd_per_month is not None:
            Budget(
                self,
                "Budget",
                deployment=settings.name,
                usd_per_month=wanted.budget_usd_per_month,
                topic=topic,
            )
