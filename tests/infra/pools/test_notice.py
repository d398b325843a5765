import json
from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.infra.functions import end_notice
from neuronfleet.infra.settings.model import Pool
from tests.infra.functions.events import notice
from tests.infra.pools.synthesis import (
    BLOCK,
    EFA,
    MODEL,
    RESERVED,
    SUBNETS,
    ULTRASERVER,
    all_properties,
    properties,
    synthesised,
)

FUNCTION = "AWS::Lambda::Function"
RULE = "AWS::Events::Rule"


def of(kind: str, pool: Pool = BLOCK) -> dict[str, Any]:
    return properties(synthesised(pool), kind)


def test_ec2s_words_on_this_reservation_reach_the_function_and_no_others() -> None:
    pattern = of(RULE)["EventPattern"]
    event = notice("cr-0123456789abcdef0")

    assert pattern["source"] == [event["source"]]
    assert event["detail-type"] in pattern["detail-type"]
    assert "Capacity Block Reservation Delivered" in pattern["detail-type"]
    assert pattern["detail"] == {
        "capacity-reservation-id": [event["detail"]["capacity-reservation-id"]]
    }
    assert pattern["account"] == [{"Ref": "AWS::AccountId"}]


def test_the_rule_may_call_the_function_and_no_other_rule_may() -> None:
    (target,) = of(RULE)["Targets"]
    permission = of("AWS::Lambda::Permission")
    function = target["Arn"]["Fn::GetAtt"][0]
    resources = synthesised(BLOCK)["Resources"]

    assert resources[function]["Type"] == FUNCTION
    assert permission["FunctionName"] == {"Ref": function}
    assert permission["Principal"] == "events.amazonaws.com"
    assert resources[permission["SourceArn"]["Fn::GetAtt"][0]]["Type"] == RULE


def test_what_cannot_be_delivered_or_fails_is_kept() -> None:
    (target,) = of(RULE)["Targets"]
    failures = of("AWS::Lambda::EventInvokeConfig")
    queue = target["DeadLetterConfig"]["Arn"]
    (policy,) = all_properties(synthesised(BLOCK), "AWS::SQS::QueuePolicy")
    allowed = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]

    assert failures["DestinationConfig"]["OnFailure"]["Destination"] == queue
    assert [one["Principal"] for one in allowed] == [{"Service": "events.amazonaws.com"}]


def test_the_function_is_the_one_that_is_tested_here() -> None:
    function = of(FUNCTION)

    source: dict[str, Any] = {"__name__": "index"}
    exec(compile(function["Code"]["ZipFile"], "index.py", "exec"), source)
    module, name = function["Handler"].split(".")
    assert module == "index"
    assert source[name].__code__.co_code == end_notice.handler.__code__.co_code


@pytest.mark.parametrize(("pool", "minutes"), [(BLOCK, "45"), (ULTRASERVER, "75")])
def test_fleets_are_told_the_moment_of_the_scaling_to_zero(pool: Pool, minutes: str) -> None:
    variables = of(FUNCTION, pool)["Environment"]["Variables"]

    assert variables["LEAD_MINUTES"] == minutes
    assert variables["RESERVATION"] == "cr-0123456789abcdef0"


def test_every_fleet_of_the_pools_models_is_told_once() -> None:
    models = (replace(MODEL, fleet="b/two"), MODEL, replace(MODEL, name="again"))
    function = of(FUNCTION, replace(BLOCK, models=models))

    assert function["Environment"]["Variables"]["FLEETS"] == "b/two,models/chat"


def test_the_function_reaches_the_clusters_endpoint_and_nobody_reaches_it() -> None:
    group = of("AWS::EC2::SecurityGroup")
    (way_out,) = group["SecurityGroupEgress"]
    way_in = of("AWS::EC2::SecurityGroupIngress")
    place = of(FUNCTION)["VpcConfig"]

    assert (way_out["FromPort"], way_out["ToPort"], way_out["IpProtocol"]) == (443, 443, "tcp")
    assert way_out["DestinationSecurityGroupId"] == "sg-0000000000000000b" == way_in["GroupId"]
    assert (way_in["FromPort"], way_in["ToPort"]) == (443, 443)
    assert "SecurityGroupIngress" not in group
    assert place["SecurityGroupIds"] == [way_in["SourceSecurityGroupId"]]
    assert sorted(place["SubnetIds"]) == sorted(SUBNETS.values())


def test_the_function_may_write_its_log_attach_itself_and_say_that_it_failed() -> None:
    template = synthesised(BLOCK)
    role = template["Resources"][of(FUNCTION)["Role"]["Fn::GetAtt"][0]]["Properties"]
    (policy,) = role["Policies"]
    write, attach, tell = policy["PolicyDocument"]["Statement"]

    assert "ManagedPolicyArns" not in role
    assert write["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert template["Resources"][write["Resource"]["Fn::GetAtt"][0]]["Type"] == (
        "AWS::Logs::LogGroup"
    )
    assert all(action.startswith("ec2:") for action in attach["Action"])
    assert not any("Instance" in action for action in attach["Action"])
    assert tell["Action"] == "sqs:SendMessage"


def test_its_log_is_kept_for_the_settings_days_and_it_runs_alone() -> None:
    log, function = of("AWS::Logs::LogGroup"), of(FUNCTION)

    assert log["RetentionInDays"] == 90
    assert log["LogGroupName"] == f"/aws/lambda/{function['FunctionName']}"
    assert "ReservedConcurrentExecutions" not in function, "a low account limit would refuse it"


def test_in_the_cluster_it_may_read_and_patch_these_fleets_and_nothing_else() -> None:
    template = synthesised(BLOCK)
    entry = of("AWS::EKS::AccessEntry")
    role, binding = json.loads(of("Custom::AWSCDK-EKS-KubernetesResource")["Manifest"])

    assert role["rules"] == [
        {
            "apiGroups": ["neuronfleet.dev"],
            "resources": ["servingfleets"],
            "resourceNames": ["chat"],
            "verbs": ["get", "patch"],
        }
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [one["name"] for one in binding["subjects"]] == entry["KubernetesGroups"]
    assert entry["PrincipalArn"] == of(FUNCTION)["Role"]
    assert (entry["Type"], "AccessPolicies" in entry) == ("STANDARD", False)
    assert template["Resources"][entry["PrincipalArn"]["Fn::GetAtt"][0]]["Type"] == "AWS::IAM::Role"


def test_destroying_a_pool_takes_no_namespace_with_it() -> None:
    manifest = json.loads(of("Custom::AWSCDK-EKS-KubernetesResource")["Manifest"])

    assert {one["kind"] for one in manifest} == {"ClusterRole", "ClusterRoleBinding"}


@pytest.mark.parametrize(
    "pool", [RESERVED, EFA, replace(BLOCK, models=())], ids=["odcr", "on-demand", "no fleet"]
)
def test_nobody_is_told_of_an_end_that_there_is_not_or_that_concerns_no_fleet(pool: Pool) -> None:
    assert all_properties(synthesised(pool), FUNCTION) == []
    assert all_properties(synthesised(pool), "AWS::EKS::AccessEntry") == []
