import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.infra.commands.init import InfraPlan, PlannedFleet, PlannedVariant, init
from neuronfleet.infra.settings import offers, parse, truth, versions
from neuronfleet.infra.settings.model import NewCluster, Owner
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import CapacityType, Reservation

NOW = datetime(2026, 12, 1, tzinfo=UTC)
INF2 = PlannedVariant(
    name="inf2",
    instance_type="inf2.xlarge",
    capacity=CapacityType.ON_DEMAND,
    replicas=3,
    generation=1,
    bytes_per_device=24_650_457_088,
    tensor_parallel_degree=2,
    usd_per_hour=0.7582,
    price_region="us-east-1",
)
TRN1 = replace(INF2, name="trn1", instance_type="trn1.2xlarge", usd_per_hour=1.34375)
TRN2 = PlannedVariant(
    name="trn2",
    instance_type="trn2.3xlarge",
    capacity=CapacityType.CAPACITY_BLOCK,
    replicas=1,
    generation=2,
    bytes_per_device=71_178_511_616,
    tensor_parallel_degree=4,
    logical_core_size=2,
    usd_per_hour=2.235,
)


def plan_of(*variants: PlannedVariant, **more: Any) -> InfraPlan:
    fleet = PlannedFleet(
        name="llama-8b", namespace="models", model="llama-3.1-8b", variants=variants
    )
    return InfraPlan(name="demo", fleets=(fleet,), dated=NOW, **more)


def paths(text: str) -> list[str]:
    return [p.path for p in truth.check(parse.parse(text, "settings.yaml"), NOW)]


def test_only_the_admin_is_left_to_a_person() -> None:
    assert paths(init(plan_of(INF2, TRN1))) == ["cluster.admins[0]"]


def test_once_the_admin_is_named_the_settings_are_true() -> None:
    text = init(plan_of(INF2, TRN1)).replace("role/WHO-ADMINISTERS", "role/ClusterAdmin")

    assert paths(text) == []


def test_a_pool_holds_the_nodes_of_the_plans_peak() -> None:
    pools = parse.parse(init(plan_of(INF2)), "x").pools

    (pool,) = pools
    assert (pool.name, pool.owner, pool.most) == ("inf2-xlarge", Owner.KARPENTER, 3)
    assert (pool.sdk, pool.ami_release) == ("2.28", "v20260403")
    assert pool.models[0].bytes_per_device == 24_650_457_088
    assert pool.models[0].fleet == "models/llama-8b"


def test_replicas_that_share_a_node_need_fewer() -> None:
    shared = replace(TRN1, instance_type="trn1.32xlarge", replicas=17, replicas_per_node=16)

    assert parse.parse(init(plan_of(shared)), "x").pools[0].most == 2


def test_variants_of_one_type_and_market_share_a_pool() -> None:
    longer = replace(INF2, name="inf2-4k", bytes_per_device=20_355_489_792)

    (pool,) = parse.parse(init(plan_of(INF2, longer)), "x").pools

    assert pool.most == 6
    assert [one.name for one in pool.models] == ["llama-3.1-8b/inf2", "llama-3.1-8b/inf2-4k"]


def test_spot_and_other_pins_are_pools_of_their_own() -> None:
    spot = replace(INF2, name="spot", capacity=CapacityType.SPOT)
    pinned = replace(INF2, name="pinned", ami="v20260304")

    pools = parse.parse(init(plan_of(INF2, spot, pinned)), "x").pools

    assert [pool.name for pool in pools] == ["inf2-xlarge", "inf2-xlarge-spot", "inf2-xlarge-2"]
    assert [pool.ami_release for pool in pools] == ["v20260403", "v20260403", "v20260304"]


def test_a_region_is_chosen_that_offers_all_types() -> None:
    block = replace(TRN2, instance_type="trn2.48xlarge", tensor_parallel_degree=4)

    assert parse.parse(init(plan_of(INF2, block)), "x").region == "us-east-2"


def test_the_first_preferred_region_that_offers_all_is_taken() -> None:
    plan = plan_of(INF2, TRN1, regions=("eu-west-1", "us-west-2", "us-east-1"))

    found = parse.parse(init(plan), "x")

    assert found.region == "us-west-2"
    assert found.pools[1].zones == ("usw2-az1", "usw2-az4")


def test_where_no_region_offers_all_the_error_says_where_each_is() -> None:
    with pytest.raises(SpecError) as wrong:
        init(plan_of(TRN1, TRN2))

    said = str(wrong.value)
    assert "no region offers all of its types" in said
    assert "trn1.2xlarge: us-east-1, us-east-2, us-west-2" in said
    assert "trn2.3xlarge: ap-south-2, ap-southeast-4, sa-east-1" in said


def test_a_residency_that_excludes_every_region_is_named() -> None:
    with pytest.raises(SpecError, match="no region of eu-west-1 offers all"):
        init(plan_of(TRN2, regions=("eu-west-1",)))


def test_zones_leave_out_those_without_control_planes_and_are_two_at_least() -> None:
    found = parse.parse(init(plan_of(TRN1, regions=("us-east-2",))), "x")
    east = parse.parse(init(plan_of(INF2, regions=("us-east-1",))), "x")

    assert found.zones == ("use2-az1", "use2-az3")
    assert "use1-az3" not in east.zones


def test_zones_are_few_and_those_of_most_types() -> None:
    found = parse.parse(init(plan_of(INF2, TRN1, regions=("us-west-2",))), "x")

    assert found.zones == ("usw2-az1", "usw2-az2", "usw2-az4")
    assert found.pools[1].zones == ("usw2-az1", "usw2-az4")


def test_without_a_preference_the_region_is_one_whose_prices_are_known() -> None:
    assert parse.parse(init(plan_of(TRN2)), "x").region == "ap-south-2"
    priced = replace(TRN2, price_region="sa-east-1")

    assert parse.parse(init(plan_of(priced)), "x").region == "sa-east-1"


def test_only_servers_of_the_generations_in_use_are_built() -> None:
    old = [one.name for one in parse.parse(init(plan_of(INF2)), "x").images]
    unknown = [
        one.name for one in parse.parse(init(plan_of(replace(INF2, generation=None))), "x").images
    ]

    assert old == ["controller", "gateway", "vllm-neuron-gen1"]
    assert unknown == ["controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2"]


def test_a_variant_stays_in_its_zones() -> None:
    bound = replace(INF2, zones=("usw2-az2",))

    found = parse.parse(init(plan_of(bound, regions=("us-west-2",))), "x")

    assert found.pools[0].zones == ("usw2-az2",)


def test_zone_names_of_a_variant_are_refused_with_the_ids() -> None:
    bound = replace(INF2, zones=("us-west-2a",))

    with pytest.raises(SpecError, match=r"zones = us-west-2a, must be zone IDs of us-west-2 .*az1"):
        init(plan_of(bound, regions=("us-west-2",)))


def test_a_block_that_is_not_bought_yet_is_one_thing_to_fill_in() -> None:
    text = init(plan_of(TRN2))

    assert paths(text) == ["cluster.admins[0]", "pools[0].block.id"]
    assert "TO DO: the reservation's ID" in text


def test_of_a_known_block_its_start_is_left_to_fill_in() -> None:
    held = Reservation(id="cr-0123456789abcdef0", ends_at=datetime(2027, 3, 8, 11, 30, tzinfo=UTC))

    text = init(plan_of(replace(TRN2, reservation=held)))

    assert paths(text) == ["cluster.admins[0]", "pools[0].block.startsAt"]
    filled = text.replace("# startsAt:", "startsAt: 2027-03-01T11:30:00Z")
    assert paths(filled) == ["cluster.admins[0]"]


def test_a_block_that_is_over_is_refused() -> None:
    held = Reservation(id="cr-0123456789abcdef0", ends_at=datetime(2026, 11, 8, tzinfo=UTC))

    with pytest.raises(SpecError, match=r"pools\[0\].block.endsAt = 2026-11-08.*is past"):
        init(plan_of(replace(TRN2, reservation=held)))


def test_an_open_reservation_needs_no_times() -> None:
    held = Reservation(id="cr-0123456789abcdef0", ends_at=None)
    variant = replace(TRN2, capacity=CapacityType.RESERVED, reservation=held)

    text = init(plan_of(variant))

    assert paths(text) == ["cluster.admins[0]"]
    assert parse.parse(text, "x").pools[0].owner is Owner.NODE_GROUP


def test_a_node_group_of_many_nodes_has_efa() -> None:
    text = init(plan_of(replace(TRN2, instance_type="trn2.48xlarge")))

    assert "    efa: true\n" in text
    assert "efa:" not in init(plan_of(TRN2))


def test_an_ami_of_which_nothing_is_known_asks_for_a_reason() -> None:
    pinned = replace(TRN2, capacity=CapacityType.ON_DEMAND, sdk="2.32", ami="v20261001")

    text = init(plan_of(pinned))

    assert paths(text) == ["cluster.admins[0]", "pools[0].amiRelease"]
    assert paths(text.replace("# amiReason:", "amiReason: booted it")) == ["cluster.admins[0]"]


def test_an_sdk_of_which_no_ami_is_known_has_to_come_with_one() -> None:
    with pytest.raises(SpecError, match=r"pins\.ami = nothing, .* no AMI is known to run SDK 2.32"):
        init(plan_of(replace(TRN2, sdk="2.32")))


def test_an_sdk_that_the_chip_does_not_run_is_refused() -> None:
    with pytest.raises(SpecError, match=r"pools\[0\]\.sdk = 2\.30, must be at most 2\.28"):
        init(plan_of(replace(INF2, sdk="2.30")))


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SpecError, match="raise tensorParallelDegree"):
        init(plan_of(replace(INF2, bytes_per_device=40 * 2**30)))


def test_a_model_of_unknown_memory_is_said_to_be_unchecked() -> None:
    text = init(plan_of(replace(INF2, bytes_per_device=None)))

    assert "memory unknown, so it is not checked" in text
    assert parse.parse(text, "x").pools[0].models == ()


def test_the_price_of_all_nodes_is_said_and_what_is_unknown_too() -> None:
    spot = replace(INF2, name="spot", capacity=CapacityType.SPOT, usd_per_hour=None)

    text = init(plan_of(INF2, spot))

    # 3 nodes * 0.7582 * 730 hours
    assert "$1,660 a month" in text
    assert "without inf2-xlarge-spot (price unknown)" in text
    assert "$0.7582 an hour in us-east-1" in text


def test_needed_quotas_are_written_as_comments_alone() -> None:
    text = init(plan_of(INF2, TRN1))

    assert "#   L-1945791B: 12 # Running On-Demand Inf instances" in text
    assert "#   L-2C3B7624: 24 # Running On-Demand Trn instances" in text
    assert parse.parse(text, "x").quotas == {}


def test_gpus_are_no_pool() -> None:
    gpu = replace(INF2, name="gpu", instance_type="g6e.xlarge")

    with pytest.raises(SpecError, match=r"instanceType = g6e\.xlarge, must be one of inf2"):
        init(plan_of(gpu))


def test_a_plan_without_variants_is_refused() -> None:
    with pytest.raises(SpecError, match="no variant on Neuron was planned"):
        init(plan_of())


def test_the_same_plan_gives_the_same_text() -> None:
    assert init(plan_of(INF2, TRN1)) == init(plan_of(INF2, TRN1))


def test_the_endpoint_is_private() -> None:
    cluster = parse.parse(init(plan_of(INF2)), "x").cluster

    assert isinstance(cluster, NewCluster)
    assert cluster.public_cidrs == ()


variants = st.builds(
    PlannedVariant,
    name=st.sampled_from(["a", "b", "c"]),
    instance_type=st.sampled_from(offers.neuron_types()),
    capacity=st.sampled_from(CapacityType),
    replicas=st.integers(0, 40),
    replicas_per_node=st.integers(1, 16),
    sdk=st.none() | st.sampled_from([*versions.known_amis(), "2.32"]),
    ami=st.none() | st.sampled_from(["v20260304", "v20260714", "v20270101"]),
    bytes_per_device=st.none() | st.integers(1, 2**37),
    tensor_parallel_degree=st.sampled_from([1, 2, 4]),
    logical_core_size=st.sampled_from([None, 1, 2]),
    usd_per_hour=st.none() | st.floats(0.1, 100),
    reservation=st.none()
    | st.builds(
        Reservation,
        id=st.sampled_from(["cr-01234567", "cr-76543210"]),
        ends_at=st.none() | st.datetimes(NOW.replace(tzinfo=None), timezones=st.just(UTC)),
    ),
)
PERSONAL = re.compile(
    r"cluster\.admins\[0\]|pools\[\d+\]\.(amiRelease|block\.(id|startsAt|endsAt))"
)


@settings(max_examples=150, deadline=None)
@given(st.lists(variants, min_size=1, max_size=3))
def test_any_plan_is_refused_or_leaves_only_what_a_person_knows(
    chosen: Sequence[PlannedVariant],
) -> None:
    try:
        text = init(plan_of(*chosen))
    except SpecError:
        return

    assert all(PERSONAL.fullmatch(path) for path in paths(text))
