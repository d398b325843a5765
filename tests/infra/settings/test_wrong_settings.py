"""Settings that cannot work: each is refused once, with the field, the value and what would do."""

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from neuronfleet.infra.network import plan
from neuronfleet.infra.settings import parse, truth
from neuronfleet.infra.settings.rules import fit, network
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.planner import ceiling
from tests.infra.settings import wrong_forms, wrong_places, wrong_pools
from tests.infra.settings.cases import (
    BLOCK,
    FULL,
    INF2,
    TRN1,
    Case,
    changed,
    standing_cluster,
    standing_network,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)
CASES = [
    *wrong_forms.FORM,
    *wrong_places.PLACES,
    *wrong_places.NETWORKS,
    *wrong_places.ACCESS,
    *wrong_pools.BUYING,
    *wrong_pools.BLOCKS,
    *wrong_pools.VERSIONS,
    *wrong_pools.FIT,
    *wrong_pools.COUNTS,
]


def problems_of(document: dict[str, Any]) -> tuple[Problem, ...]:
    """What is wrong with a document, in form or in truth."""
    try:
        settings = parse.parse(yaml.safe_dump(document), "settings.yaml")
    except SpecError as wrong:
        return wrong.problems
    return tuple(truth.check(settings, NOW))


def test_the_full_example_is_true() -> None:
    assert problems_of(FULL) == ()


def test_there_are_more_than_forty_ways_to_be_wrong() -> None:
    assert len({case.name for case in CASES}) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_wrong_settings_give_one_clear_error(case: Case) -> None:
    problems = problems_of(changed(FULL, case.changes))

    assert len(problems) == 1, "\n".join(map(str, problems))
    (problem,) = problems
    assert problem.path == case.path
    assert case.value in str(problem.value)
    assert case.remedy in problem.allowed


@pytest.mark.parametrize(
    "changes",
    [
        standing_network(),
        standing_network(endpoints=True),
        standing_cluster(),
        {f"{INF2}.amiRelease": "v20260714", f"{INF2}.amiReason": "tried it on two nodes"},
        {"cluster.publicCidrs": ["198.51.100.0/24", "8.8.8.8/32"]},
        {"quotas": {}},
        {"tags": {"team": "inference"}},
        standing_network(cidr="100.64.0.0/16"),
        {f"{BLOCK}.block.endsAt": "2027-03-01T12:11:00Z"},
        {f"{BLOCK}.logicalCoreSize": 1},
        {f"{BLOCK}.capacity": "reserved", "quotas.L-2C3B7624": 464},
    ],
    ids=str,
)
def test_what_would_do_does(changes: Mapping[str, Any]) -> None:
    assert problems_of(changed(FULL, changes)) == ()


def test_every_problem_is_told_at_once() -> None:
    changes = {f"{INF2}.zones": ["use2-az9"], "cluster.admins": [], f"{TRN1}.sdk": "2.31"}

    problems = problems_of(changed(FULL, changes))

    paths = [problem.path for problem in problems]
    assert paths == ["pools[0].zones[0]", "cluster.admins", "pools[1].sdk"]


def test_refused_settings_say_every_problem_with_their_file() -> None:
    document = changed(FULL, {"cluster.admins": []})
    settings = parse.parse(yaml.safe_dump(document), "settings.yaml")

    with pytest.raises(SpecError, match=r"settings.yaml: 1 problem\n  cluster.admins = nothing"):
        truth.require(settings, NOW, "settings.yaml")


def test_the_runtimes_share_of_a_device_is_the_planners() -> None:
    assert fit.OVERHEAD_BYTES == ceiling.OVERHEAD_MIB_PER_CHIP * 2**20


def test_subnets_are_counted_as_large_as_they_are_made() -> None:
    assert (network.NODE_PREFIX, network.PUBLIC_PREFIX) == (plan.NODE_PREFIX, plan.PUBLIC_PREFIX)


def test_an_ultraserver_block_needs_seventy_minutes() -> None:
    document = changed(
        FULL,
        {
            "region": "ap-south-2",
            "zones": ["aps2-az1", "aps2-az2"],
            "pools": [FULL["pools"][4]],
            "quotas": {},
        },
    )
    pool = document["pools"][0]
    pool.update(instanceType="trn2u.48xlarge", zones=["aps2-az1"])
    pool["block"].update(instanceType="trn2u.48xlarge", zone="aps2-az1", ultraserver=True)
    longer, shorter = copy.deepcopy(document), copy.deepcopy(document)
    longer["pools"][0]["block"]["endsAt"] = "2027-03-01T12:41:00Z"
    shorter["pools"][0]["block"]["endsAt"] = "2027-03-01T12:40:00Z"

    assert problems_of(longer) == ()
    assert "more than 70 minutes" in problems_of(shorter)[0].allowed
