import json
from functools import cache
from typing import Any

import cdk_nag
import jsonschema
import pytest
from aws_cdk import Validations

from neuronfleet.infra.charts import efa, karpenter, neuron
from neuronfleet.infra.settings.model import Pool, Serving
from tests.infra.addons.world import ACCOUNT, BLOCK, INF2, TRN1, Made, World, settings, text

FULL = (INF2, TRN1, BLOCK)


@cache
def addons(*pools: Pool, **given: Any) -> Made:
    return Made(World(settings(*pools, **given)).addons())


def full() -> Made:
    return addons(*FULL)


def test_karpenter_is_installed_where_it_owns_a_pool_and_nowhere_else() -> None:
    assert "karpenter" in full().charts()
    assert not {"karpenter", "karpenter-crd"} & set(addons(BLOCK).charts())
    assert not addons(BLOCK).of("AWS::SQS::Queue")


def test_the_efa_plugin_comes_with_the_first_pool_that_has_efa() -> None:
    values = full().charts()[efa.CHART.name]["Values"]

    assert values["supportedInstanceLabels"]["values"] == ["trn1.32xlarge", "trn2.48xlarge"]
    assert efa.CHART.name not in addons(INF2).charts()


def test_charts_are_pinned_and_end_before_the_function_that_runs_helm_does() -> None:
    for name, chart in full().charts().items():
        assert chart["Version"].strip("v")[0].isdigit(), name
        assert chart["Timeout"] == "600s"
        assert chart["Wait"] is True


def test_values_as_they_are_deployed_are_what_the_charts_take() -> None:
    charts = full().charts()

    for chart in (karpenter.CONTROLLER, karpenter.CRDS, neuron.CHART, efa.CHART):
        values = charts[chart.name]["Values"]
        jsonschema.validate(values, chart.schema, jsonschema.Draft202012Validator)


def test_crds_come_by_their_own_chart_which_upgrades_them() -> None:
    charts = full().charts()

    assert charts["karpenter"]["SkipCrds"] is True
    assert charts["karpenter"]["Version"] == charts["karpenter-crd"]["Version"]


def test_each_pool_of_karpenters_has_a_class_and_a_pool_in_one_manifest() -> None:
    made = full().manifests()

    pools = [one["metadata"]["name"] for one in made if one["kind"] == "NodePool"]
    classes = [one["metadata"]["name"] for one in made if one["kind"] == "EC2NodeClass"]
    assert pools == classes == ["inf2", "trn1"]


def test_nodes_are_launched_into_known_subnets_and_groups_with_the_deployments_tags() -> None:
    made = full().manifests()
    (spec,) = (
        one["spec"] for one in made
        if one["kind"] == "EC2NodeClass" and one["metadata"]["name"] == "trn1"
    )  # fmt: skip

    assert spec["subnetSelectorTerms"] == [{"id": "subnet-0123456789abcdef3"}]
    assert spec["securityGroupSelectorTerms"] == [
        {"id": "sg-0123456789abcdef0"},
        {"id": "sg-0123456789abcdef1"},
    ]
    assert spec["tags"] == {
        "team": "serving",
        "neuronfleet:deployment": "fleet",
        "Name": "fleet-trn1",
        "neuronfleet.dev/pool": "trn1",
    }


def test_nodes_of_karpenters_may_join_the_cluster_with_a_role_without_buckets() -> None:
    made = full()

    entry = made.one("AWS::EKS::AccessEntry")
    assert entry["Type"] == "EC2_LINUX"
    (role,) = (
        one for one in made.of("AWS::IAM::Role")
        if "ec2.amazonaws.com" in json.dumps(one["AssumeRolePolicyDocument"])
    )  # fmt: skip
    assert "Policies" not in role
    assert "S3" not in json.dumps(role["ManagedPolicyArns"])


def test_fleets_may_read_weights_and_graphs_and_nothing_else() -> None:
    made = full()
    own = [
        one for one in made.statements()
        if one["Sid"] in ("ListStores", "ReadObjects", "DecryptThroughS3")
    ]  # fmt: skip

    assert {one["Action"] for one in own} == {"s3:ListBucket", "s3:GetObject", "kms:Decrypt"}
    objects = next(one for one in own if one["Action"] == "s3:GetObject")
    shown = {text(one) for one in objects["Resource"]}
    assert shown == {
        "arn:<AWS::Partition>:s3:::fleet-weights/*",
        "arn:<AWS::Partition>:s3:::fleet-graphs/*",
    }
    assert not [one for one in made.statements() if "s3:*" in json.dumps(one)]


def test_identities_are_tied_to_cluster_namespace_and_service_account() -> None:
    serving = Serving(fleet_namespaces=("a", "b"), service_account="reader")
    made = addons(INF2, serving=serving)

    (trust,) = (
        one["AssumeRolePolicyDocument"]["Statement"]
        for one in made.of("AWS::IAM::Role")
        if "reader" in json.dumps(one)
    )
    for one in trust:
        assert one["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert one["Condition"]["StringEquals"] == {
            "aws:RequestTag/eks-cluster-name": "prod",
            "aws:RequestTag/kubernetes-namespace": ["a", "b"],
            "aws:RequestTag/kubernetes-service-account": "reader",
        }
    assert {action for one in trust for action in _list(one["Action"])} == {
        "sts:AssumeRole",
        "sts:TagSession",
    }
    tied = {
        (one["Namespace"], one["ServiceAccount"])
        for one in made.of("AWS::EKS::PodIdentityAssociation")
    }
    assert {("a", "reader"), ("b", "reader")} <= tied


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_notices_of_ec2_reach_karpenters_queue_which_is_encrypted_and_wants_tls() -> None:
    made = full()

    queue = made.one("AWS::SQS::Queue")
    assert queue["QueueName"] == "fleet-karpenter-notices"
    assert queue["SqsManagedSseEnabled"] is True
    kinds = {one["EventPattern"]["detail-type"][0] for one in made.of("AWS::Events::Rule")}
    assert "EC2 Spot Instance Interruption Warning" in kinds
    assert len(kinds) == 4
    policy = json.dumps(made.one("AWS::SQS::QueuePolicy"))
    assert '"aws:SecureTransport": "false"' in policy


def test_no_finding_of_nag_is_left() -> None:
    for account in (ACCOUNT, None):
        world = World(settings(*FULL), account=account)
        world.addons()
        Validations.of(world.app).add_plugins(cdk_nag.AwsSolutionsChecks(world.app))
        world.app.synth()


def test_the_private_device_plugin_of_cdk_is_nowhere() -> None:
    assert "1.0.9043.0" not in json.dumps(full().template)


@pytest.mark.parametrize("word", ["latest", "0.0.0.0/0"])
def test_no_template_says(word: str) -> None:
    assert word not in json.dumps(full().template)
