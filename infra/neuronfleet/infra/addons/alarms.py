"""Alarms: each says that something will not mend by itself, and what to look at."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from neuronfleet.infra.addons.karpenter_queue import queue_name
from neuronfleet.infra.addons.manifests.karpenter import karpenter_pools
from neuronfleet.infra.settings.model import Pool, Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One metric and when it is too much."""

    id: str
    meaning: str
    namespace: str
    metric: str
    dimensions: Mapping[str, str]
    statistic: str
    minutes: int
    """Length of one period."""
    above: float
    periods: int = 1


def watches(
    settings: Settings, *, cluster_name: str, nat_gateways: Mapping[str, str]
) -> tuple[Watch, ...]:
    """What is watched, for what the deployment has."""
    found = [_unschedulable(cluster_name)]
    if karpenter_pools(settings):
        found.append(_unread_notices(settings.name))
    found += [_undelivered(settings, pool) for pool in settings.pools if pool.block is not None]
    return (*found, *(_ports_of(name, id) for name, id in nat_gateways.items()))


class Alarms(Construct):
    """CloudWatch alarms that tell the topic."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        network: NetworkFacts,
        cluster: ClusterFacts,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, id)
        gateways = {
            f"Nat{number}Ports": gateway for number, gateway in enumerate(network.nat_gateways)
        }
        for watch in watches(settings, cluster_name=cluster.name, nat_gateways=gateways):
            alarm = _alarm(self, watch)
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))


def _alarm(scope: Construct, watch: Watch) -> cloudwatch.Alarm:
    metric = cloudwatch.Metric(
        namespace=watch.namespace,
        metric_name=watch.metric,
        dimensions_map=dict(watch.dimensions),
        statistic=watch.statistic,
        period=Duration.minutes(watch.minutes),
    )
    return cloudwatch.Alarm(
        scope,
        watch.id,
        metric=metric,
        alarm_description=watch.meaning,
        threshold=watch.above,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=watch.periods,
        # None of these metrics is sent where nothing happens.
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _unschedulable(cluster_name: str) -> Watch:
    return Watch(
        id="PodsWithoutNode",
        meaning="Pods have waited for a node for half an hour (those of the Neuron scheduler are "
        "not counted): no capacity, a pool at its most, or a request that no pool meets. "
        "kubectl get pods -A --field-selector status.phase=Pending",
        namespace="AWS/EKS",
        metric="scheduler_pending_pods_UNSCHEDULABLE",
        dimensions={"ClusterName": cluster_name},
        # Sent each minute; the service gives it a sum alone.
        statistic="Sum",
        minutes=1,
        above=0,
        periods=30,
    )


def _unread_notices(deployment: str) -> Watch:
    return Watch(
        id="NoticesUnread",
        meaning="Karpenter does not read EC2's notices: a spot instance will go undrained. "
        "kubectl -n kube-system logs deployment/karpenter",
        namespace="AWS/SQS",
        metric="ApproximateAgeOfOldestMessage",
        dimensions={"QueueName": queue_name(deployment)},
        statistic="Maximum",
        minutes=1,
        # A spot instance is taken 120 s after its notice.
        above=60,
        periods=3,
    )


def _undelivered(settings: Settings, pool: Pool) -> Watch:
    return Watch(
        id=f"Undelivered-{pool.name}",
        meaning=f"A call of {pool.name}'s life did not arrive: its nodes do not come, are ended by "
        "EC2 with streams on them, or its fleets do not know its end. The messages in the queue "
        "say why; purge it once they are read",
        namespace="AWS/SQS",
        metric="ApproximateNumberOfMessagesVisible",
        dimensions={"QueueName": naming.undelivered(settings, pool)},
        statistic="Maximum",
        minutes=1,
        above=0,
    )


def _ports_of(name: str, gateway: str) -> Watch:
    return Watch(
        id=name,
        meaning="The NAT gateway has no port left for a new connection: pulls of images and "
        "weights fail. Add a gateway (network.natGateways) or an endpoint",
        namespace="AWS/NATGateway",
        metric="ErrorPortAllocation",
        dimensions={"NatGatewayId": gateway},
        statistic="Sum",
        minutes=5,
        above=0,
        periods=3,
    )
