from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.infra.addons.manifests import karpenter
from neuronfleet.infra.settings.model import Owner, Pool, Settings
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType
from neuronfleet.serving.controller.records import node as node_record
from neuronfleet.serving.controller.workloads import placement
from tests.serving.controller.workloads.fleets import INF2, a_fleet

POOL = Pool(
    name="inf2",
    owner=Owner.KARPENTER,
    instance_type="inf2.48xlarge",
    capacity=CapacityType.SPOT,
    zones=("use2-az1", "use2-az3"),
    most=3,
    sdk="2.28",
    ami_release="v20260403",
)
PLACE = karpenter.Place(
    instance_profile="nodes",
    subnets={"use2-az1": "subnet-1", "use2-az2": "subnet-2", "use2-az3": "subnet-3"},
    security_groups=("sg-cluster",),
    efa_security_group="sg-efa",
    tags={"team": "x"},
)


def spec(pool: Pool = POOL) -> dict[str, Any]:
    made: dict[str, Any] = karpenter.node_pool(pool)["spec"]
    return made


def made_of(pool: Pool = POOL) -> dict[str, Any]:
    made: dict[str, Any] = karpenter.node_class(pool, PLACE)["spec"]
    return made


def allowed(pool: Pool = POOL) -> dict[str, list[str]]:
    asked = spec(pool)["template"]["spec"]["requirements"]
    assert {one["operator"] for one in asked} == {"In"}
    return {one["key"]: one["values"] for one in asked}


def test_a_pool_launches_its_type_in_its_zones_as_it_is_bought() -> None:
    assert allowed() == {
        "node.kubernetes.io/instance-type": ["inf2.48xlarge"],
        "karpenter.sh/capacity-type": ["spot"],
        "topology.k8s.aws/zone-id": ["use2-az1", "use2-az3"],
        "kubernetes.io/arch": ["amd64"],
        "kubernetes.io/os": ["linux"],
    }


def test_a_replica_finds_what_it_requires_on_a_node_of_its_pool() -> None:
    pool = replace(POOL, instance_type="inf2.xlarge", capacity=CapacityType.ON_DEMAND)
    (variant, *_) = a_fleet(INF2 | {"zones": ["use2-az1"]}).variants

    affinity = placement.node_affinity(variant, "x")["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = {one["key"]: set(one["values"]) for one in term["matchExpressions"]}
    assert wanted
    assert all(values & set(allowed(pool)[key]) for key, values in wanted.items())
    (taint,) = spec(pool)["template"]["spec"]["taints"]
    borne = {(one["key"], one["effect"]) for one in placement.tolerations(variant)}
    assert (taint["key"], taint["effect"]) in borne


def test_the_controller_reads_ami_and_sdk_from_the_labels() -> None:
    body = {"metadata": {"name": "n", "uid": "u", "labels": karpenter.node_labels(POOL)}}

    read = node_record(body)

    assert (read.ami, read.sdk) == ("v20260403", "2.28")


def test_the_sdk_of_an_ami_that_no_note_tells_of_is_not_made_up() -> None:
    labels = karpenter.node_labels(replace(POOL, ami_release="v20261101", ami_reason="tried it"))

    assert "neuronfleet.dev/sdk" not in labels


def test_a_pool_never_holds_more_nodes_or_devices_than_its_most() -> None:
    # 3 nodes of 12 devices.
    assert spec()["limits"] == {"nodes": "3", "aws.amazon.com/neuron": "36"}


def test_only_empty_nodes_are_given_up_and_none_for_its_age() -> None:
    made = spec()

    assert made["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert made["template"]["spec"]["expireAfter"] == "Never"


def test_do_not_disrupt_is_never_overridden_by_a_grace_period() -> None:
    assert "terminationGracePeriod" not in spec()["template"]["spec"]


def test_changed_nodes_are_replaced_one_at_a_time() -> None:
    budgets = {reason: one["nodes"] for one in spec()["disruption"]["budgets"]
               for reason in one["reasons"]}  # fmt: skip

    assert budgets == {"Empty": "100%", "Drifted": "1"}


def test_the_image_is_pinned_to_the_release_of_the_pool() -> None:
    assert made_of()["amiSelectorTerms"] == [{"alias": "al2023@v20260403"}]


def test_nodes_are_launched_into_the_subnets_of_the_pools_zones_alone() -> None:
    assert made_of()["subnetSelectorTerms"] == [{"id": "subnet-1"}, {"id": "subnet-3"}]


def test_instance_metadata_wants_a_token_and_is_out_of_reach_of_pods() -> None:
    options = made_of()["metadataOptions"]

    assert options["httpTokens"] == "required"
    assert options["httpPutResponseHopLimit"] == 1


def test_the_root_volume_is_encrypted_and_sized_as_asked() -> None:
    (volume,) = made_of(replace(POOL, root_gib=321))["blockDeviceMappings"]

    assert volume["ebs"]["encrypted"] is True
    assert volume["ebs"]["volumeSize"] == "321Gi"


@pytest.mark.parametrize(
    ("instance_type", "policy"), [("inf2.48xlarge", None), ("trn1.32xlarge", "RAID0")]
)
def test_local_disks_are_made_one_array_where_there_are_any(
    instance_type: str, policy: str | None
) -> None:
    made = made_of(replace(POOL, instance_type=instance_type))

    assert made.get("instanceStorePolicy") == policy


def test_efa_takes_an_interface_of_each_card_and_its_security_group() -> None:
    made = made_of(replace(POOL, instance_type="trn1.32xlarge", efa=True))

    kinds = [one["interfaceType"] for one in made["networkInterfaces"]]
    places = {(o["networkCardIndex"], o["deviceIndex"]) for o in made["networkInterfaces"]}
    assert (kinds.count("interface"), kinds.count("efa-only")) == (1, 8)
    assert len(places) == 9
    assert {"id": "sg-efa"} in made["securityGroupSelectorTerms"]


def test_without_efa_nodes_are_in_the_clusters_security_group_alone() -> None:
    made = made_of()

    assert made["securityGroupSelectorTerms"] == [{"id": "sg-cluster"}]
    assert "networkInterfaces" not in made


def test_the_logical_core_size_is_written_before_the_kubelet_starts() -> None:
    told = made_of(replace(POOL, instance_type="trn2.48xlarge", logical_core_size=1))["userData"]

    assert told.startswith("MIME-Version: 1.0\n")
    assert 'echo "NEURON_LOGICAL_NC_CONFIG=1" > /opt/aws/neuron/logical_nc_config' in told
    assert "userData" not in made_of()


def test_instances_carry_the_tags_of_the_deployment_and_their_pool() -> None:
    assert made_of()["tags"] == {"team": "x", "neuronfleet.dev/pool": "inf2"}


def test_node_groups_are_none_of_karpenters_business() -> None:
    other = replace(POOL, name="block", owner=Owner.NODE_GROUP)
    settings = Settings(name="fleet", region="us-east-2", pools=(POOL, other))

    assert karpenter.karpenter_pools(settings) == (POOL,)


def test_a_type_without_neuron_devices_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"pools.inf2.instanceType = m7i.large"):
        karpenter.node_pool(replace(POOL, instance_type="m7i.large"))
