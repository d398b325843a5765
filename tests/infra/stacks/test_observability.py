import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import cdk_nag
import pytest
import yaml
from aws_cdk import Validations

from neuronfleet.infra.settings.model import Observability, Pool
from tests.infra.addons.world import ACCOUNT, BLOCK, INF2, TRN1, Made, World, settings, text

ROOT = Path(__file__).parents[3]
RULES = (ROOT / "monitoring/rules/fleet.yml").read_text()


@cache
def observability(*pools: Pool, **given: Any) -> Made:
    return Made(World(settings(*pools, **given)).observability())


def full() -> Made:
    return observability(INF2, TRN1, BLOCK)


def test_the_workspace_is_encrypted_logged_and_outlives_its_stack() -> None:
    (workspace,) = full().resources("AWS::APS::Workspace")

    assert workspace["DeletionPolicy"] == workspace["UpdateReplacePolicy"] == "Retain"
    assert workspace["Properties"]["KmsKeyArn"]
    assert workspace["Properties"]["LoggingConfiguration"]
    (group,) = full().of("AWS::Logs::LogGroup")
    assert group["KmsKeyId"]
    assert group["RetentionInDays"] == 90


def test_what_the_workspace_holds_can_be_read_as_long_as_it_is_there() -> None:
    (key,) = full().resources("AWS::KMS::Key")

    assert key["DeletionPolicy"] == "Retain"
    assert key["Properties"]["EnableKeyRotation"] is True


def test_managed_prometheus_gets_the_projects_rules_as_they_stand() -> None:
    assert full().one("AWS::APS::RuleGroupsNamespace")["Data"] == RULES


def test_the_scraper_looks_at_devices_and_karpenter_from_every_zone() -> None:
    scraper = full().one("AWS::APS::Scraper")

    source = scraper["Source"]["EksConfiguration"]
    assert source["SubnetIds"] == ["subnet-0123456789abcdef1", "subnet-0123456789abcdef3"]
    blob = scraper["ScrapeConfiguration"]["ConfigurationBlob"]
    written = blob["Fn::Base64"] if isinstance(blob, dict) else base64.b64decode(blob).decode()
    jobs = {one["job_name"] for one in yaml.safe_load(written)["scrape_configs"]}
    assert jobs == {"neuron-monitor", "karpenter"}


def test_the_controllers_prometheus_may_send_samples_to_the_workspace_and_nothing_else() -> None:
    made = full()

    (one,) = made.statements()
    assert one["Action"] == "aps:RemoteWrite"
    assert text(one["Resource"]).endswith(".Arn>")
    tied = made.one("AWS::EKS::PodIdentityAssociation")
    assert (tied["Namespace"], tied["ServiceAccount"]) == ("neuronfleet-monitoring", "prometheus")


def test_that_prometheus_sends_to_this_workspace() -> None:
    (files,) = (one for one in full().manifests() if one["kind"] == "ConfigMap")

    (target,) = yaml.safe_load(files["data"]["prometheus.yml"])["remote_write"]
    assert target["url"].endswith("PrometheusEndpoint>api/v1/remote_write")


def alarms(made: Made) -> dict[str, dict[str, Any]]:
    return {one["MetricName"]: one for one in made.of("AWS::CloudWatch::Alarm")}


def test_each_alarm_says_what_to_look_at_and_tells_the_topic_both_ways() -> None:
    found = alarms(full())

    assert set(found) == {
        "scheduler_pending_pods_UNSCHEDULABLE",
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesVisible",
    }
    for one in found.values():
        assert len(one["AlarmDescription"]) > 60
        assert one["AlarmActions"] == one["OKActions"]
        assert one["TreatMissingData"] == "notBreaching"


def test_what_a_deployment_does_not_have_is_not_watched() -> None:
    assert set(alarms(observability())) == {"scheduler_pending_pods_UNSCHEDULABLE"}


def test_unread_notices_are_told_before_the_next_spot_instance_is_gone() -> None:
    one = alarms(full())["ApproximateAgeOfOldestMessage"]

    assert one["Dimensions"] == [{"Name": "QueueName", "Value": "fleet-karpenter-notices"}]
    assert one["Threshold"] < 120


def test_a_call_that_did_not_arrive_is_told_by_the_queue_of_its_pool() -> None:
    one = alarms(full())["ApproximateNumberOfMessagesVisible"]

    (dimension,) = one["Dimensions"]
    assert dimension["Value"].endswith("-undelivered")
    assert one["Threshold"] == 0


def test_the_nat_gateways_of_an_own_network_are_watched() -> None:
    made = Made(World(settings(INF2), nat=("nat-1", "nat-2")).observability())

    watched = [
        one["Dimensions"]
        for one in made.of("AWS::CloudWatch::Alarm")
        if one["MetricName"] == "ErrorPortAllocation"
    ]
    assert watched == [[{"Name": "NatGatewayId", "Value": f"nat-{one}"}] for one in (1, 2)]


def test_notices_are_encrypted_want_tls_and_come_from_this_account_alone() -> None:
    made = full()

    assert made.one("AWS::SNS::Topic")["KmsMasterKeyId"]
    statements = made.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [one for one in statements if one["Effect"] == "Allow"]
    assert {one["Principal"]["Service"] for one in allowed} == {
        "cloudwatch.amazonaws.com",
        "budgets.amazonaws.com",
    }
    assert all(one["Condition"]["StringEquals"]["aws:SourceAccount"] == ACCOUNT for one in allowed)
    assert any("aws:SecureTransport" in json.dumps(one) for one in statements)


def test_who_is_written_to_and_when_the_budget_is_near_its_end() -> None:
    made = full()

    assert made.one("AWS::SNS::Subscription")["Endpoint"] == "ops@fleet.example"
    budget = made.one("AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 5000, "Unit": "USD"}
    thresholds = {
        (one["Notification"]["NotificationType"], one["Notification"]["Threshold"])
        for one in budget["NotificationsWithSubscribers"]
    }
    assert thresholds == {("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)}


def test_without_budget_and_address_there_is_neither() -> None:
    made = observability(INF2, observability=Observability())

    assert not {"AWS::Budgets::Budget", "AWS::SNS::Subscription"} & made.types()


def test_no_finding_of_nag_is_left() -> None:
    world = World(settings(INF2, TRN1, BLOCK))
    world.observability()
    Validations.of(world.app).add_plugins(cdk_nag.AwsSolutionsChecks(world.app))
    world.app.synth()


@pytest.mark.parametrize("word", ["latest", "0.0.0.0/0"])
def test_no_template_says(word: str) -> None:
    assert word not in json.dumps(full().template)
