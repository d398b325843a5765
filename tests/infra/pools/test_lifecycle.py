import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from neuronfleet.infra.pools.lifecycle import window
from neuronfleet.infra.settings.model import Pool
from neuronfleet.serving.api.problems import SpecError
from tests.infra.pools.synthesis import (
    BLOCK,
    EFA,
    ENDS,
    RESERVED,
    STARTS,
    ULTRASERVER,
    all_properties,
    synthesised,
)

SCHEDULE = "AWS::Scheduler::Schedule"
BLOCKS = pytest.mark.parametrize("pool", [BLOCK, ULTRASERVER], ids=lambda pool: pool.name)


def schedules(pool: Pool, now: datetime | None = None) -> dict[str, dict[str, Any]]:
    """Schedules by what they do: grow, shrink."""
    found = all_properties(synthesised(pool, now), SCHEDULE)
    return {one["Name"].rpartition("-")[2]: one for one in found}


def moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.000Z").replace(tzinfo=UTC)


def asked(schedule: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schedule["Target"]["Input"])
    return found


def camel(value: Any) -> Any:
    """Keys as EKS itself spells them: the universal target's differ in the first letter."""
    if not isinstance(value, dict):
        return value
    return {key[0].lower() + key[1:]: camel(item) for key, item in value.items()}


@BLOCKS
def test_growth_begins_with_the_block_and_is_repeated(pool: Pool) -> None:
    grow = schedules(pool)["grow"]

    assert moment(grow["StartDate"]) == STARTS
    assert grow["ScheduleExpression"] == "rate(10 minutes)"
    assert moment(grow["EndDate"]) - STARTS > timedelta(days=2)
    assert asked(grow)["ScalingConfig"] == {"DesiredSize": 4}


@pytest.mark.parametrize(("pool", "minutes"), [(BLOCK, 40), (ULTRASERVER, 70)])
def test_nodes_go_before_ec2_gives_notice_and_the_call_is_repeated(
    pool: Pool, minutes: int
) -> None:
    shrink = schedules(pool)["shrink"]

    assert ENDS - moment(shrink["StartDate"]) > timedelta(minutes=minutes)
    assert moment(shrink["EndDate"]) == ENDS
    assert shrink["ScheduleExpression"] == "rate(5 minutes)"
    assert asked(shrink)["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0}


@BLOCKS
def test_no_growth_can_arrive_after_the_scaling_to_zero_began(pool: Pool) -> None:
    found = schedules(pool)
    latest = found["grow"]["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"]
    last = moment(found["grow"]["EndDate"]) + timedelta(seconds=latest)

    assert last < moment(found["shrink"]["StartDate"])


@BLOCKS
def test_a_schedule_has_no_window_of_its_own(pool: Pool) -> None:
    for schedule in schedules(pool).values():
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_growth_asks_for_no_more_than_the_reservation_and_the_bound_hold() -> None:
    assert BLOCK.block is not None
    fewer = replace(BLOCK, block=replace(BLOCK.block, count=3))

    assert asked(schedules(fewer)["grow"])["ScalingConfig"] == {"DesiredSize": 3}
    assert asked(schedules(replace(BLOCK, most=2))["grow"])["ScalingConfig"] == {"DesiredSize": 2}


@BLOCKS
def test_eks_takes_what_the_schedules_ask_for(pool: Pool) -> None:
    client = boto3.client("eks", region_name="us-east-2")
    shape = client.meta.service_model.operation_model("UpdateNodegroupConfig").input_shape
    assert shape is not None

    for schedule in schedules(pool).values():
        target = schedule["Target"]["Arn"]["Fn::Join"][1][-1]
        body = camel(asked(schedule))
        assert target == ":scheduler:::aws-sdk:eks:updateNodegroupConfig"
        assert set(body) <= set(shape.members)
        assert set(shape.required_members) <= set(body)
        assert set(body["scalingConfig"]) <= set(shape.members["scalingConfig"].members)
        assert (body["clusterName"], body["nodegroupName"]) == ("full", f"full-{pool.name}")


@BLOCKS
def test_schedules_may_resize_their_node_group_and_nothing_else(pool: Pool) -> None:
    template = synthesised(pool)
    (role,) = {
        one["Target"]["RoleArn"]["Fn::GetAtt"][0] for one in all_properties(template, SCHEDULE)
    }
    found = template["Resources"][role]["Properties"]
    (policy,) = found["Policies"]
    (trust,) = found["AssumeRolePolicyDocument"]["Statement"]

    resize, tell = policy["PolicyDocument"]["Statement"]
    assert resize["Action"] == "eks:UpdateNodegroupConfig"
    assert resize["Resource"] == {"Fn::GetAtt": ["NodeGroup", "Arn"]}
    assert tell["Action"] == "sqs:SendMessage"
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@BLOCKS
def test_what_eks_refuses_is_kept(pool: Pool) -> None:
    template = synthesised(pool)
    (queue,) = [k for k, v in template["Resources"].items() if v["Type"] == "AWS::SQS::Queue"]

    for schedule in schedules(pool).values():
        assert schedule["Target"]["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [queue, "Arn"]}}
    assert template["Resources"][queue]["Properties"] == {
        "QueueName": f"full-{pool.name}-undelivered",
        "SqsManagedSseEnabled": True,
        "MessageRetentionPeriod": 14 * 24 * 3600,
    }


def test_a_running_block_grows_at_once_since_a_past_start_is_refused() -> None:
    found = schedules(BLOCK, STARTS + timedelta(hours=1))

    assert "StartDate" not in found["grow"]
    assert found["grow"]["EndDate"] == schedules(BLOCK)["grow"]["EndDate"]
    assert found["shrink"] == schedules(BLOCK)["shrink"]


def test_a_block_that_is_being_left_grows_no_more() -> None:
    found = schedules(BLOCK, ENDS - timedelta(minutes=44))

    assert set(found) == {"shrink"}
    assert "StartDate" not in found["shrink"]


def test_before_the_start_the_clock_changes_nothing() -> None:
    assert synthesised(BLOCK, STARTS - timedelta(days=9)) == synthesised(BLOCK)


@pytest.mark.parametrize("pool", [RESERVED, EFA], ids=lambda pool: pool.name)
def test_a_pool_that_does_not_end_has_no_schedules(pool: Pool) -> None:
    assert schedules(pool) == {}


def test_a_block_without_times_is_refused() -> None:
    assert BLOCK.block is not None
    with pytest.raises(SpecError, match="startsAt, endsAt = nothing, must be its times"):
        window(replace(BLOCK.block, ends_at=None))


def test_a_block_that_is_over_before_its_nodes_are_up_is_refused() -> None:
    assert BLOCK.block is not None
    short = replace(BLOCK.block, ends_at=STARTS + timedelta(minutes=55))

    with pytest.raises(SpecError, match=r"must be more than 0:55:00 after startsAt"):
        window(short)
