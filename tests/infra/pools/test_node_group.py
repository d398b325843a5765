from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.infra.settings.model import Pool
from neuronfleet.serving.api import hardware
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType, Reservation, Variant
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.workloads import placement
from tests.infra.pools.synthesis import (
    BLOCK,
    EFA,
    POOLS,
    RESERVED,
    SUBNETS,
    ULTRASERVER,
    ZONE,
    group,
    properties,
    stack,
    synthesised,
)

EACH = pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)


def variant(pool: Pool) -> Variant:
    """One that means the pool's nodes."""
    block = pool.block
    return Variant(
        name="chat",
        instance=hardware.instance_type(pool.instance_type),
        capacity_type=pool.capacity,
        zones=pool.zones,
        reservation=Reservation(id=block.id, ends_at=block.ends_at) if block else None,
        max_model_len=1,
        max_num_seqs=1,
    )


def node(pool: Pool) -> dict[str, Any]:
    """A node of the pool as it joins: EKS adds type and zone."""
    labels = group(pool)["Labels"] | {
        "node.kubernetes.io/instance-type": pool.instance_type,
        "topology.k8s.aws/zone-id": pool.zones[0],
    }
    return {"metadata": {"name": "node", "uid": "1", "labels": labels}}


@EACH
def test_a_block_is_sold_as_a_block_and_all_else_on_demand(pool: Pool) -> None:
    expected = "CAPACITY_BLOCK" if pool in (BLOCK, ULTRASERVER) else "ON_DEMAND"

    assert group(pool)["CapacityType"] == expected


@EACH
def test_nodes_run_the_neuron_ami_of_the_pinned_release(pool: Pool) -> None:
    name = f"amazon-eks-node-al2023-x86_64-neuron-1.35-{pool.ami_release}"

    assert group(pool)["AmiType"] == "AL2023_x86_64_NEURON"
    assert group(pool)["ReleaseVersion"] == (
        "{{resolve:ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/"
        f"{name}/release_version}}}}"
    )


@EACH
def test_the_group_leaves_to_the_template_what_the_template_says(pool: Pool) -> None:
    assert not {"InstanceTypes", "DiskSize", "RemoteAccess", "Version"} & set(group(pool))


@EACH
def test_nodes_stand_in_the_one_subnet_of_their_zone(pool: Pool) -> None:
    assert group(pool)["Subnets"] == [SUBNETS[ZONE]]


@EACH
def test_no_desired_size_is_declared_and_none_is_forced(pool: Pool) -> None:
    assert group(pool)["ScalingConfig"] == {"MinSize": 0, "MaxSize": pool.most}
    assert "ForceUpdateEnabled" not in group(pool)


def test_nodes_that_a_pool_keeps_are_its_lower_bound() -> None:
    kept = replace(EFA, least=1)
    named = properties(synthesised(kept, None, "trn1"), "AWS::EKS::Nodegroup")

    assert group(kept)["ScalingConfig"] == {"MinSize": 1, "MaxSize": 2}
    assert named["ScalingConfig"] == {"MinSize": 1, "MaxSize": 2, "DesiredSize": 1}


def test_a_deployment_that_names_a_pool_creates_it_at_zero_and_no_other() -> None:
    named = properties(synthesised(BLOCK, None, "trn1,trn2"), "AWS::EKS::Nodegroup")
    other = properties(synthesised(BLOCK, None, "trn"), "AWS::EKS::Nodegroup")

    assert named["ScalingConfig"] == {"MinSize": 0, "MaxSize": 4, "DesiredSize": 0}
    assert other == group(BLOCK)


@EACH
def test_an_update_takes_an_old_node_away_before_it_asks_for_a_new_one(pool: Pool) -> None:
    assert group(pool)["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"}


@EACH
def test_replicas_that_mean_the_pool_find_its_nodes(pool: Pool) -> None:
    labels = node(pool)["metadata"]["labels"]
    affinity = placement.node_affinity(variant(pool), "variants.chat")["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]

    for wanted in term["matchExpressions"]:
        assert labels[wanted["key"]] in wanted["values"]


@EACH
def test_replicas_tolerate_the_taint_and_other_pods_do_not(pool: Pool) -> None:
    (taint,) = group(pool)["Taints"]
    (toleration,) = placement.tolerations(variant(pool))

    assert taint == {"Key": toleration["key"], "Effect": "NO_SCHEDULE"}
    assert (toleration["operator"], toleration["effect"]) == ("Exists", "NoSchedule")


@EACH
def test_nodes_say_which_ami_they_run_and_which_sdk_its_driver_is_of(pool: Pool) -> None:
    found = records.node(node(pool))

    assert found.ami == pool.ami_release
    assert found.sdk == pool.sdk


def test_the_driver_of_an_unlisted_ami_is_unknown_and_not_that_of_the_images() -> None:
    newer = replace(EFA, ami_release="v20990101", ami_reason="tried")

    assert "neuronfleet.dev/sdk" not in group(newer)["Labels"]


@EACH
def test_nodes_may_join_pull_and_be_reached_by_session_manager_alone(pool: Pool) -> None:
    template = synthesised(pool)
    logical = group(pool)["NodeRole"]["Fn::GetAtt"][0]
    role = template["Resources"][logical]["Properties"]
    policies = [one["Fn::Join"][1][-1] for one in role["ManagedPolicyArns"]]

    assert policies == [
        ":iam::aws:policy/AmazonEKSWorkerNodePolicy",
        ":iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        ":iam::aws:policy/AmazonSSMManagedInstanceCore",
    ]
    assert "Policies" not in role
    attached = [
        one["Properties"]["Roles"]
        for one in template["Resources"].values()
        if one["Type"] == "AWS::IAM::Policy"
    ]
    assert [{"Ref": logical}] not in attached


def test_spot_is_refused() -> None:
    with pytest.raises(SpecError, match=r"pools\.odcr\.owner = node-group, must be karpenter"):
        stack(replace(RESERVED, capacity=CapacityType.SPOT, block=None))
