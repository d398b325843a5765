"""Nodes of a capacity block come at its start and go before its end, by EventBridge Scheduler.

Its universal target calls UpdateNodegroupConfig; the input's keys are the SDK's in PascalCase
(EventBridge Scheduler User Guide, Using universal targets).
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from neuronfleet.infra.settings.model import Block, Pool
from neuronfleet.infra.settings.rules.blocks import lead
from neuronfleet.serving.api.problems import SpecError

TARGET = "aws-sdk:eks:updateNodegroupConfig"
MARGIN = timedelta(minutes=5)
"""Earlier than EC2's notice: 45 minutes before the end, 75 of an UltraServer."""
GROW_EVERY = timedelta(minutes=10)
SHRINK_EVERY = timedelta(minutes=5)
"""Repeated: EKS refuses an update while another one runs, and a block may come late."""
_STALE_S = 300
"""A call that could not be made for so long is dropped; the next one says the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a block's nodes are wanted; all times are UTC."""

    grows_at: datetime
    grows_until: datetime
    """No growth is sent from here on, so that none arrives after the scaling to zero."""
    shrinks_at: datetime
    ends_at: datetime


def gone_before(block: Block) -> timedelta:
    """How long before its end a block is scaled to zero."""
    return lead(block) + MARGIN


def window(block: Block) -> Window:
    """The times of a block.

    Raises:
        SpecError: it has no start or end, or is too short for its nodes.
    """
    if block.starts_at is None or block.ends_at is None:
        raise SpecError(f"block {block.id} startsAt, endsAt = nothing, must be its times")
    shrinks_at = block.ends_at - gone_before(block)
    grows_until = shrinks_at - GROW_EVERY
    if grows_until <= block.starts_at:
        raise SpecError(
            f"block {block.id} endsAt = {block.ends_at.isoformat()}, must be more than "
            f"{gone_before(block) + GROW_EVERY} after startsAt = {block.starts_at.isoformat()}"
        )
    return Window(
        grows_at=block.starts_at.astimezone(UTC),
        grows_until=grows_until.astimezone(UTC),
        shrinks_at=shrinks_at.astimezone(UTC),
        ends_at=block.ends_at.astimezone(UTC),
    )


class Lifecycle(Construct):
    """Both schedules and the role they act as."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        pool: Pool,
        block: Block,
        cluster_name: str,
        group_name: str,
        group_arn: str,
        undelivered: sqs.IQueue,
        now: datetime | None,
    ) -> None:
        """Schedules of a block.

        Args:
            scope: Where they stand.
            id: Their name in it.
            pool: The block's pool.
            block: The block.
            cluster_name: Of the node group.
            group_name: Of the node group.
            group_arn: Of the node group.
            undelivered: Where calls go that EKS did not take.
            now: Time of the synthesis; None is before the start. Scheduler refuses a start that is
                past, and without one begins at once.
        """
        super().__init__(scope, id)
        self._role = _role(self, group_arn, undelivered)
        self._undelivered = undelivered.queue_arn
        self._group = {"ClusterName": cluster_name, "NodegroupName": group_name}
        self._now = now
        times = window(block)
        if now is None or now < times.grows_until:
            self._schedule(
                "Grow",
                GROW_EVERY,
                times.grows_at,
                times.grows_until,
                {"DesiredSize": min(pool.most, block.count)},
            )
        # A lower bound that somebody raised by hand would have the scaling to zero refused.
        self._schedule(
            "Shrink",
            SHRINK_EVERY,
            times.shrinks_at,
            times.ends_at,
            {"MinSize": 0, "DesiredSize": 0},
        )

    def _schedule(
        self, id: str, every: timedelta, start: datetime, end: datetime, scaling: dict[str, int]
    ) -> None:
        schedule = scheduler.CfnSchedule
        past = self._now is not None and start <= self._now
        group = self._group["NodegroupName"]
        scheduler.CfnSchedule(
            self,
            id,
            name=f"{group}-{id.lower()}",
            description=f"Scale {group} to {scaling['DesiredSize']} nodes",
            schedule_expression=f"rate({int(every.total_seconds() // 60)} minutes)",
            start_date=None if past else _text(start),
            end_date=_text(end),
            flexible_time_window=schedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=schedule.TargetProperty(
                arn=f"arn:{Aws.PARTITION}:scheduler:::{TARGET}",
                role_arn=self._role.role_arn,
                input=json.dumps(self._group | {"ScalingConfig": scaling}),
                dead_letter_config=schedule.DeadLetterConfigProperty(arn=self._undelivered),
                retry_policy=schedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=_STALE_S, maximum_retry_attempts=3
                ),
            ),
        )


def _role(scope: Construct, group_arn: str, undelivered: sqs.IQueue) -> iam.Role:
    """May resize this one node group, and say where that failed."""
    own = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
    resize = iam.PolicyStatement(actions=["eks:UpdateNodegroupConfig"], resources=[group_arn])
    tell = iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[undelivered.queue_arn])
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com", conditions=own),
        inline_policies={"Resize": iam.PolicyDocument(statements=[resize, tell])},
    )


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
