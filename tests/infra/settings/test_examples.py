from datetime import UTC, datetime
from pathlib import Path

import pytest

from neuronfleet.infra.settings import parse, quotas, truth
from neuronfleet.infra.settings.model import Owner
from neuronfleet.serving.api.variant import CapacityType

EXAMPLES = sorted((Path(__file__).parents[3] / "examples/infra").glob("*.yaml"))
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def test_each_region_of_the_fleet_has_an_example() -> None:
    assert [file.stem for file in EXAMPLES] == ["sa-east-1", "us-east-2", "us-west-2"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_named_after_its_region_and_is_true(file: Path) -> None:
    settings = parse.load(file)

    assert settings.region == file.stem
    assert truth.check(settings, NOW) == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_names_only_quotas_that_it_needs(file: Path) -> None:
    settings = parse.load(file)

    assert set(settings.quotas) <= set(quotas.needed(settings))


def test_the_full_example_has_a_pool_of_each_kind() -> None:
    pools = parse.load(EXAMPLES[1]).pools

    kinds = {(pool.instance_type, pool.owner, pool.capacity, pool.efa) for pool in pools}
    assert kinds == {
        ("inf2.xlarge", Owner.KARPENTER, CapacityType.ON_DEMAND, False),
        ("trn1.2xlarge", Owner.KARPENTER, CapacityType.ON_DEMAND, False),
        ("trn1.2xlarge", Owner.KARPENTER, CapacityType.SPOT, False),
        ("trn1.32xlarge", Owner.NODE_GROUP, CapacityType.ON_DEMAND, True),
        ("trn2.48xlarge", Owner.NODE_GROUP, CapacityType.CAPACITY_BLOCK, True),
    }
