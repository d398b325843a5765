from dataclasses import replace

import pytest

from neuronfleet.infra.settings import offers
from neuronfleet.infra.settings.model import Pool
from tests.infra.pools.synthesis import (
    BLOCK,
    EFA,
    POOLS,
    RESERVED,
    ULTRASERVER,
    all_properties,
    synthesised,
    template_data,
)

EACH = pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)


@EACH
def test_the_type_stands_in_the_template(pool: Pool) -> None:
    assert template_data(pool)["InstanceType"] == pool.instance_type


@EACH
def test_pods_do_not_reach_instance_credentials(pool: Pool) -> None:
    assert template_data(pool)["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


@EACH
def test_the_root_volume_is_encrypted_and_as_large_as_asked(pool: Pool) -> None:
    (root,) = template_data(pool)["BlockDeviceMappings"]

    assert root["DeviceName"] == "/dev/xvda"
    assert root["Ebs"] == {
        "Encrypted": True,
        "VolumeType": "gp3",
        "VolumeSize": pool.root_gib,
        "DeleteOnTermination": True,
    }


@EACH
def test_nobody_logs_in_by_ssh_and_eks_chooses_image_profile_and_subnet(pool: Pool) -> None:
    data = template_data(pool)
    absent = {"KeyName", "ImageId", "IamInstanceProfile", "SecurityGroupIds", "SecurityGroups"}

    assert not absent & set(data)
    assert all("SubnetId" not in one for one in data["NetworkInterfaces"])


@EACH
def test_efa_interfaces_are_those_of_the_offer(pool: Pool) -> None:
    offer = offers.find(pool.instance_type)
    kinds = [one["InterfaceType"] for one in template_data(pool)["NetworkInterfaces"]]

    assert offer is not None
    assert kinds.count("interface") == 1
    assert kinds.count("efa-only") == (offer.efa_interfaces if pool.efa else 0)


@EACH
def test_packets_are_of_the_clusters_group_and_efa_of_its_own(pool: Pool) -> None:
    groups = {"interface": ["sg-0000000000000000b"], "efa-only": ["sg-0000000000000000e"]}

    for one in template_data(pool)["NetworkInterfaces"]:
        assert one["Groups"] == groups[one["InterfaceType"]]


def test_no_node_gets_a_public_address() -> None:
    (single,) = template_data(RESERVED)["NetworkInterfaces"]

    assert single["AssociatePublicIpAddress"] is False
    # RunInstances refuses the key beside several interfaces, whatever it says.
    assert all("AssociatePublicIpAddress" not in one for one in _interfaces(BLOCK))


def _interfaces(pool: Pool) -> list[dict[str, object]]:
    found: list[dict[str, object]] = template_data(pool)["NetworkInterfaces"]
    return found


@EACH
def test_a_reservation_is_targeted_by_its_id_and_only_a_block_is_a_market(pool: Pool) -> None:
    data = template_data(pool)
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})

    assert target.get("CapacityReservationId") == (pool.block.id if pool.block else None)
    assert ("InstanceMarketOptions" in data) == (pool in (BLOCK, ULTRASERVER))
    if "InstanceMarketOptions" in data:
        assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


@EACH
def test_only_an_on_demand_efa_pool_has_a_placement_group(pool: Pool) -> None:
    made = all_properties(synthesised(pool), "AWS::EC2::PlacementGroup")

    assert made == ([{"Strategy": "cluster"}] if pool is EFA else [])
    assert ("Placement" in template_data(pool)) == (pool is EFA)


@EACH
def test_instances_volumes_and_interfaces_carry_name_pool_and_the_settings_tags(pool: Pool) -> None:
    specifications = template_data(pool)["TagSpecifications"]

    assert [one["ResourceType"] for one in specifications] == [
        "instance",
        "volume",
        "network-interface",
    ]
    for one in specifications:
        assert {tag["Key"]: tag["Value"] for tag in one["Tags"]} == {
            "Name": f"full-{pool.name}",
            "neuronfleet.dev/pool": pool.name,
            "neuronfleet:deployment": "full",
            "team": "serving",
        }


def test_trn2_3xlarge_has_efa_only_where_asked() -> None:
    small = replace(BLOCK, instance_type="trn2.3xlarge", efa=False)

    assert len(_interfaces(small)) == 1
    assert len(_interfaces(replace(small, efa=True))) == 2
