from dataclasses import replace
from pathlib import Path

import pytest

from neuronfleet.infra.settings import parse, quotas
from neuronfleet.serving.api.variant import CapacityType

FULL = parse.load(Path(__file__).parents[3] / "examples/infra/us-east-2.yaml")


@pytest.mark.parametrize(
    ("instance_type", "capacity", "code"),
    [
        ("trn1.32xlarge", CapacityType.ON_DEMAND, "L-2C3B7624"),
        ("trn2u.48xlarge", CapacityType.RESERVED, "L-2C3B7624"),
        ("inf2.xlarge", CapacityType.ON_DEMAND, "L-1945791B"),
        ("trn1.2xlarge", CapacityType.SPOT, "L-6B0D517C"),
        ("inf2.xlarge", CapacityType.SPOT, "L-B5D1601B"),
        ("t3.large", CapacityType.ON_DEMAND, "L-1216C47A"),
        ("trn2.48xlarge", CapacityType.CAPACITY_BLOCK, None),
    ],
)
def test_a_node_counts_against_the_quota_of_its_family_and_market(
    instance_type: str, capacity: CapacityType, code: str | None
) -> None:
    quota = quotas.quota_of(instance_type, capacity)

    assert (quota and quota.code) == code


def test_pools_of_one_family_add_up() -> None:
    # 2 trn1.2xlarge of 8 and 2 trn1.32xlarge of 128; 8 inf2.xlarge of 4; 4 spot of 8; 4 m7i of 2
    assert quotas.needed(FULL) == {
        "L-1945791B": 32,
        "L-2C3B7624": 272,
        "L-6B0D517C": 32,
        "L-1216C47A": 8,
    }


def test_a_use_says_whose_it_is() -> None:
    assert [use.by for use in quotas.uses(FULL)] == [
        "pools[0]",
        "pools[1]",
        "pools[2]",
        "pools[3]",
        "cluster.systemNodes",
    ]


def test_a_type_that_nobody_knows_counts_nothing() -> None:
    pool = replace(FULL.pools[0], instance_type="trn9.large")

    assert "L-1945791B" not in quotas.needed(replace(FULL, pools=(pool,)))
