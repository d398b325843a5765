import json
from typing import Any

from neuronfleet.infra.addons.karpenter_policies import Scope, policies

SCOPE = Scope(
    partition="aws",
    region="us-east-2",
    account="111122223333",
    cluster="fleet",
    node_role="arn:aws:iam::111122223333:role/nodes",
    queue="arn:aws:sqs:us-east-2:111122223333:notices",
)


def statements() -> list[dict[str, Any]]:
    return [dict(one) for part in policies(SCOPE).values() for one in part]


def those_that(action: str) -> list[dict[str, Any]]:
    return [one for one in statements() if action in one["Action"]]


def test_instances_are_ended_only_where_they_are_the_clusters_and_karpenters() -> None:
    (one,) = those_that("ec2:TerminateInstances")

    assert one["Condition"] == {
        "StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/fleet": "owned"},
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    }


def test_what_is_launched_has_to_carry_the_clusters_tags() -> None:
    (tagged,) = (one for one in those_that("ec2:RunInstances") if one["Sid"] == "LaunchTagged")

    assert "arn:aws:ec2:us-east-2:*:instance/*" in tagged["Resource"]
    assert tagged["Condition"]["StringEquals"] == {
        "aws:RequestTag/kubernetes.io/cluster/fleet": "owned",
        "aws:RequestTag/eks:eks-cluster-name": "fleet",
    }


def test_tags_are_written_at_a_launch_or_on_own_nodes_and_only_three_of_them() -> None:
    at_launch, late = those_that("ec2:CreateTags")

    assert at_launch["Condition"]["StringEquals"]["ec2:CreateAction"]
    assert late["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"] == [
        "eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name",
    ]  # fmt: skip


def test_only_the_nodes_own_role_is_passed_and_only_to_ec2() -> None:
    (one,) = those_that("iam:PassRole")

    assert one["Resource"] == [SCOPE.node_role]
    assert one["Condition"] == {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com"]}}


def test_nothing_of_iam_is_written() -> None:
    actions = [action for one in statements() for action in one["Action"]]
    iam = {action for action in actions if action.startswith("iam:")}

    assert iam == {"iam:PassRole", "iam:ListInstanceProfiles", "iam:GetInstanceProfile"}


def test_every_resource_means_what_cannot_be_named_and_only_reads() -> None:
    everything = [one for one in statements() if one["Resource"] == ["*"]]
    actions = [action for one in everything for action in one["Action"]]

    assert all(a.split(":")[1].startswith(("Describe", "List", "Get")) for a in actions)


def test_no_action_is_a_wildcard() -> None:
    assert not [a for one in statements() for a in one["Action"] if "*" in a]


def test_each_policy_fits_into_a_managed_one() -> None:
    for name, part in policies(SCOPE).items():
        text = json.dumps({"Version": "2012-10-17", "Statement": part}, separators=(",", ":"))
        assert len(text) < 6144, name
