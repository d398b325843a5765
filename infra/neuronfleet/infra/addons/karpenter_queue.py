"""Notices of EC2 that Karpenter acts on: a spot instance is taken, an instance ends or fails."""

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from neuronfleet.infra import nag

_NOTICES: Mapping[str, tuple[str, str]] = {
    "Health": ("aws.health", "AWS Health Event"),
    "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "StateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
}


def queue_name(deployment: str) -> str:
    """Name of the queue, by which alarms find it too."""
    return f"{deployment}-karpenter-notices"


class KarpenterQueue(Construct):
    """The queue and the rules that fill it."""

    def __init__(self, scope: Construct, id: str, *, deployment: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=queue_name(deployment),
            # A spot notice is void after two minutes.
            retention_period=Duration.minutes(5),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        for name, (source, kind) in _NOTICES.items():
            rule = events.Rule(
                self,
                name,
                event_pattern=events.EventPattern(source=[source], detail_type=[kind]),
            )
            rule.add_target(targets.SqsQueue(self.queue))
        nag.acknowledge(
            self.queue,
            "AwsSolutions-SQS3",
            reason="a notice that was not read is void within minutes: nobody would replay it",
        )
