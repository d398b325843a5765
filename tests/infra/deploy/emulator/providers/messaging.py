"""Queues, topics, rules and schedules, all through moto's own APIs."""

import json
from typing import Any

from botocore.validate import ParamValidator

from tests.infra.deploy.emulator.registry import Made, Refused, Request, creates

QUEUE_ATTRIBUTES = (
    "DelaySeconds",
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@creates("AWS::SQS::Queue")
def queue(request: Request) -> Made:
    """A queue; a dead-letter queue that it names has to exist."""
    properties = request.properties
    attributes = {key: _text(properties[key]) for key in QUEUE_ATTRIBUTES if key in properties}
    if redrive := properties.get("RedrivePolicy"):
        attributes["RedrivePolicy"] = json.dumps(redrive)
    name = request.name("QueueName")
    sqs = request.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    arn = request.arn("sqs", name)
    return Made(ref=url, attributes={"Arn": arn, "QueueName": name, "QueueUrl": url})


@creates("AWS::SQS::QueuePolicy")
def queue_policy(request: Request) -> Made:
    """Who may send to queues."""
    policy = json.dumps(request.properties["PolicyDocument"])
    for url in request.properties["Queues"]:
        request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return Made(ref=request.logical_id, attributes={"Id": request.logical_id})


@creates("AWS::SNS::Topic")
def topic(request: Request) -> Made:
    """A topic and its key."""
    name = request.name("TopicName")
    attributes = {
        key: _text(request.properties[key])
        for key in ("DisplayName", "KmsMasterKeyId")
        if key in request.properties
    }
    arn = request.client("sns").create_topic(Name=name, Attributes=attributes)["TopicArn"]
    return Made(ref=arn, attributes={"TopicArn": arn, "TopicName": name})


@creates("AWS::SNS::TopicPolicy")
def topic_policy(request: Request) -> Made:
    """Who may publish to topics."""
    policy = json.dumps(request.properties["PolicyDocument"])
    for arn in request.properties["Topics"]:
        request.client("sns").set_topic_attributes(
            TopicArn=arn, AttributeName="Policy", AttributeValue=policy
        )
    return Made(ref=request.logical_id, attributes={"Id": request.logical_id})


@creates("AWS::SNS::Subscription")
def subscription(request: Request) -> Made:
    """Where a topic's messages go."""
    properties = request.properties
    arn = request.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties["Endpoint"],
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    return Made(ref=arn, attributes={"Arn": arn})


@creates("AWS::Events::Rule")
def rule(request: Request) -> Made:
    """A rule and its targets; a rule without any would wait for nothing."""
    properties = request.properties
    name = request.name()
    events = request.client("events")
    parameters: dict[str, Any] = {"Name": name, "State": properties.get("State", "ENABLED")}
    if pattern := properties.get("EventPattern"):
        parameters["EventPattern"] = json.dumps(pattern)
    for key in ("Description", "ScheduleExpression", "RoleArn", "EventBusName"):
        if key in properties:
            parameters[key] = properties[key]
    arn = events.put_rule(**parameters)["RuleArn"]
    targets = properties.get("Targets", [])
    if not targets:
        raise Refused(f"rule {name} has no targets")
    bus = {"EventBusName": properties["EventBusName"]} if "EventBusName" in properties else {}
    failed = events.put_targets(Rule=name, Targets=targets, **bus)["FailedEntries"]
    if failed:
        raise Refused(f"rule {name}: {failed}")
    return Made(ref=name, attributes={"Arn": arn, "RuleName": name})


UNIVERSAL = ":scheduler:::aws-sdk:"
"""What a universal target's ARN has before its service and its operation."""


def _check_call(request: Request, target: str, arguments: dict[str, Any]) -> None:
    """Scheduler calls the operation with PascalCase keys and does not say which it cannot use.

    So the call is checked against the operation's own shape.
    """
    service, operation = target.split(":")
    model = request.client(service).meta.service_model
    shape = model.operation_model(operation[0].upper() + operation[1:]).input_shape
    report = ParamValidator().validate(_spelled(arguments, shape), shape)
    if report.has_errors():
        raise Refused(f"{target}: {report.generate_report()}")


def _spelled(value: Any, shape: Any) -> Any:
    """Arguments under the names of the operation's members; others are unknown to it."""
    if shape.type_name != "structure" or not isinstance(value, dict):
        return value
    members = {name[0].upper() + name[1:]: name for name in shape.members}
    return {
        members.get(key, key.upper()): _spelled(item, shape.members[members[key]])
        if key in members
        else item
        for key, item in value.items()
    }


@creates("AWS::Scheduler::ScheduleGroup")
def schedule_group(request: Request) -> Made:
    """A group of schedules."""
    name = request.name()
    arn = request.client("scheduler").create_schedule_group(Name=name)["ScheduleGroupArn"]
    return Made(ref=name, attributes={"Arn": arn})


@creates("AWS::Scheduler::Schedule")
def schedule(request: Request) -> Made:
    """A schedule, in a group and with a role that exist, whose input is JSON."""
    properties = dict(request.properties)
    target = properties["Target"]
    if UNIVERSAL in target["Arn"]:
        _check_call(request, target["Arn"].partition(UNIVERSAL)[2], json.loads(target["Input"]))
    role = target["RoleArn"].rsplit("/", 1)[1]
    request.client("iam").get_role(RoleName=role)
    name = request.name()
    arn = request.client("scheduler").create_schedule(**(properties | {"Name": name}))[
        "ScheduleArn"
    ]
    return Made(ref=name, attributes={"Arn": arn})
