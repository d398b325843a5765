"""What CloudFormation refuses, the emulator refuses; what it resolves, it resolves."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.infra.deploy.cloud import Cloud, Emulators

NUMBERS = count()


@pytest.fixture(scope="module")
def shared(emulators: Emulators, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One account for all: each test has stacks and names of its own."""
    with emulators.cloud(tmp_path_factory.mktemp("strictness")) as started:
        yield started


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def parameter(value: Any, **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value} | more}


def schedule(arguments: dict[str, Any]) -> dict[str, Any]:
    target = {
        "Arn": "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig",
        "Input": json.dumps(arguments),
        "RoleArn": "arn:aws:iam::123456789012:role/scaler",
    }
    window = {"Mode": "OFF"}
    return {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "ScheduleExpression": "rate(10 minutes)",
            "FlexibleTimeWindow": window,
            "Target": target,
        },
    }


def stack(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def name() -> str:
    return f"stack-{next(NUMBERS)}"


REFUSED = {
    "no provider for AWS::SQS::Kewe": {"Type": "AWS::SQS::Kewe"},
    "no provider for Custom::Unheard": {"Type": "Custom::Unheard"},
    "'Value' is a required property": {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Type": "String"},
    },
    "'SOMETIMES' is not one of": {
        "Type": "AWS::ECR::Repository",
        "Properties": {"RepositoryName": "models", "ImageTagMutability": "SOMETIMES"},
    },
    "'Days' was unexpected": {
        "Type": "AWS::S3::Bucket",
        "Properties": {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled", "Days": 3}]}},
    },
    "'soon' is not of type 'integer'": queue(VisibilityTimeout="soon"),
    "'-' does not match": {
        "Type": "AWS::EKS::Cluster",
        "Properties": {
            "RoleArn": "r",
            "Name": "-",
            "ResourcesVpcConfig": {"SubnetIds": ["subnet-1"]},
        },
    },
    "Arn is read-only": queue(Arn="arn:aws:sqs:us-east-2:123456789012:mine"),
    "has no attribute Depth": parameter({"Fn::GetAtt": ["Other", "Depth"]}),
    "'Absent'": parameter({"Ref": "Absent"}),
    "there is no complete stack elsewhere": parameter(
        {"Fn::GetStackOutput": {"StackName": "elsewhere", "OutputName": "Name"}}
    ),
    "No export named absent found": parameter({"Fn::ImportValue": "absent"}),
    "has no targets": {
        "Type": "AWS::Events::Rule",
        "Properties": {"EventPattern": {"source": ["aws.ec2"]}},
    },
    'Unknown parameter in input: "CLUSTERNAME"': schedule(
        {"clusterName": "c", "NodegroupName": "g", "ScalingConfig": {"DesiredSize": 1}}
    ),
    'Unknown parameter in scalingConfig: "DESIREDNODES"': schedule(
        {"ClusterName": "c", "NodegroupName": "g", "ScalingConfig": {"DesiredNodes": 1}}
    ),
    "the emulator knows no such parameter": parameter("{{resolve:ssm:/aws/service/absent}}"),
    "InvalidLaunchTemplateId": {
        "Type": "AWS::EKS::Nodegroup",
        "Properties": {
            "ClusterName": "c",
            "NodeRole": "arn:aws:iam::123456789012:role/node",
            "Subnets": [],
            "LaunchTemplate": {"Id": "lt-0123456789abcdef0", "Version": "1"},
        },
    },
}


@pytest.mark.parametrize("said", REFUSED)
def test_refuses_and_says_what(said: str, shared: Cloud) -> None:
    reason = shared.create(name(), stack(Other=queue(), Wrong=REFUSED[said]))

    assert reason is not None
    assert said in reason


def test_a_failed_stack_hands_nothing_to_others(shared: Cloud) -> None:
    failed = name()
    template = stack(Wrong={"Type": "AWS::SQS::Kewe"}) | {"Outputs": {"Name": {"Value": "x"}}}
    shared.create(failed, template)
    wanted = {"Fn::GetStackOutput": {"StackName": failed, "OutputName": "Name"}}

    reason = shared.create(name(), stack(Reader=parameter(wanted)))

    assert reason is not None
    assert f"no complete stack {failed}" in reason


def test_looking_at_a_failed_stack_creates_nothing_more(shared: Cloud) -> None:
    failed = name()
    shared.create(failed, stack(Wrong={"Type": "AWS::SQS::Kewe"}, After=queue()))

    shared.client("cloudformation").list_stack_resources(StackName=failed)

    assert [made for made in shared.created() if made.stack == failed] == []


def test_circular_dependencies_are_refused(shared: Cloud) -> None:
    first, second = queue() | {"DependsOn": ["Second"]}, queue() | {"DependsOn": "First"}

    reason = shared.create(name(), stack(First=first, Second=second))

    assert reason is not None
    assert "circular dependency: First -> Second" in reason


def test_what_a_resource_depends_on_comes_before_it(shared: Cloud) -> None:
    ordered = name()

    assert (
        shared.create(ordered, stack(Last=queue() | {"DependsOn": "First"}, First=queue())) is None
    )
    assert [made.logical_id for made in shared.created() if made.stack == ordered] == [
        "First",
        "Last",
    ]


def test_outputs_reach_other_stacks_by_export_and_by_weak_reference(shared: Cloud) -> None:
    producer, consumer = name(), name()
    outputs = {
        "Weak": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}},
        "Strong": {"Value": {"Ref": "Queue"}, "Export": {"Name": f"{producer}:url"}},
    }
    weak = {"Fn::GetStackOutput": {"StackName": producer, "OutputName": "Weak"}}

    assert (
        shared.create(producer, stack(Queue=queue(QueueName="shared")) | {"Outputs": outputs})
        is None
    )
    reason = shared.create(
        consumer,
        stack(
            Weak=parameter(weak, Name="/weak"),
            Strong=parameter({"Fn::ImportValue": f"{producer}:url"}, Name="/strong"),
        ),
    )

    assert reason is None
    ssm = shared.client("ssm")
    assert ssm.get_parameter(Name="/weak")["Parameter"]["Value"].endswith(":shared")
    assert ssm.get_parameter(Name="/strong")["Parameter"]["Value"].endswith("/shared")


def test_an_output_that_resolves_to_nothing_fails_its_stack(shared: Cloud) -> None:
    outputs = {"Depth": {"Value": {"Fn::GetAtt": ["Queue", "Depth"]}}}

    reason = shared.create(name(), stack(Queue=queue()) | {"Outputs": outputs})

    assert reason is not None
    assert "has no attribute Depth" in reason


def test_numbers_and_booleans_may_be_strings_as_in_cloudformation(shared: Cloud) -> None:
    made = name()

    reason = shared.create(made, stack(Queue=queue(VisibilityTimeout="45", QueueName=made)))

    assert reason is None
    sqs = shared.client("sqs")
    url = sqs.get_queue_url(QueueName=made)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert found["Attributes"]["VisibilityTimeout"] == "45"
