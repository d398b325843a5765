"""What a change of settings does to a running deployment: nothing is replaced that holds or serves.

Judged over two syntheses of the full example and AWS's schemas: the emulator makes no updates.
"""

import copy
import json
from dataclasses import replace
from functools import cache

import pytest

from neuronfleet.infra.settings.model import Admin, NewCluster, Owner, Pool, Settings
from tests.infra import examples
from tests.infra.updates.judge import Change, Fate, changes, harmful

BEFORE = examples.settings(examples.FULL)
DATA = f"{BEFORE.name}-Data"
HOLDING = ("AWS::ECR::Repository", "AWS::KMS::Key", "AWS::S3::Bucket")


def cluster(settings: Settings) -> NewCluster:
    if not isinstance(settings.cluster, NewCluster):
        raise TypeError("the full example has a cluster of its own")
    return settings.cluster


def every_day(settings: Settings) -> Settings:
    """Bounds, pools, images, access and money, all at once."""
    pools = [replace(pool, most=pool.most + 1) for pool in settings.pools]
    group = next(pool for pool in pools if pool.owner is Owner.NODE_GROUP and pool.block is None)
    own = next(pool for pool in pools if pool.owner is Owner.KARPENTER)
    added = [replace(one, name=f"{one.name}-more", models=()) for one in (group, own)]
    opened = replace(
        cluster(settings),
        public_cidrs=("192.0.2.0/24",),
        admins=(*cluster(settings).admins, Admin(arn="role/SecondAdmin")),
    )
    digest = "sha256:" + "fedcba9876543210" * 4
    return replace(
        settings,
        pools=(*pools, *added),
        cluster=opened,
        images=tuple(replace(image, digest=digest) for image in settings.images),
        observability=replace(settings.observability, budget_usd_per_month=25_000),
    )


def upgraded(settings: Settings) -> Settings:
    """Another Kubernetes, and another AMI and SDK for every pool."""
    newer = replace(cluster(settings), version="1.36")
    pools = (replace(pool, sdk="2.29", ami_release="v20260409") for pool in settings.pools)
    return replace(settings, cluster=newer, pools=tuple(pools))


def tagged(settings: Settings) -> Settings:
    """Another tag on everything that takes one."""
    return replace(settings, tags={**settings.tags, "team": "inference"})


CASES = {"every day": every_day, "upgrade": upgraded, "tags": tagged}


@cache
def after(case: str) -> tuple[Change, ...]:
    """What a case changes."""
    old = examples.templates(examples.assembly(examples.FULL))
    new = examples.templates(examples.synthesise(CASES[case](BEFORE)))
    return tuple(changes(old, new, BEFORE.region))


def groups() -> list[Pool]:
    return [pool for pool in BEFORE.pools if pool.owner is Owner.NODE_GROUP]


@pytest.mark.parametrize("case", CASES)
def test_nothing_that_holds_or_serves_is_replaced_or_deleted(case: str) -> None:
    assert harmful(list(after(case))) == []


@pytest.mark.parametrize("case", ["every day", "upgrade"])
def test_network_data_and_builds_are_not_even_touched(case: str) -> None:
    kept = {f"{BEFORE.name}-{part}" for part in ("Network", "Data", "Build")}

    assert kept & {change.stack for change in after(case)} == set()


@pytest.mark.parametrize("case", CASES)
def test_the_case_does_change_the_cluster(case: str) -> None:
    fates = {change.type: change.fate for change in after(case)}

    assert fates["AWS::EKS::Cluster"] is Fate.UPDATED


@pytest.mark.parametrize("pool", groups(), ids=lambda pool: pool.name)
def test_another_bound_of_a_pool_keeps_its_running_nodes(pool: Pool) -> None:
    touched = {
        change.type: change.because
        for change in after("every day")
        if change.stack == f"{BEFORE.name}-Pool-{pool.name}"
    }

    assert touched["AWS::EKS::Nodegroup"] == ("ScalingConfig",)
    assert "AWS::EC2::LaunchTemplate" not in touched


@pytest.mark.parametrize("pool", groups(), ids=lambda pool: pool.name)
def test_no_update_sets_a_size_or_kills_a_pod_that_will_not_go(pool: Pool) -> None:
    template = examples.templates(examples.assembly(examples.FULL))[
        f"{BEFORE.name}-Pool-{pool.name}"
    ]
    [group] = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::EKS::Nodegroup"
    ]

    assert "DesiredSize" not in group["ScalingConfig"]
    assert not group.get("ForceUpdateEnabled", False)


@pytest.mark.parametrize("pool", groups(), ids=lambda pool: pool.name)
def test_another_ami_release_rolls_the_pool_in_place(pool: Pool) -> None:
    [group] = [
        change
        for change in after("upgrade")
        if change.stack == f"{BEFORE.name}-Pool-{pool.name}"
        and change.type == "AWS::EKS::Nodegroup"
    ]

    assert group.fate is Fate.UPDATED
    assert "ReleaseVersion" in group.because


def test_another_zone_is_refused_by_the_names_of_what_it_would_replace() -> None:
    old = examples.templates(examples.assembly(examples.FULL))
    fewer = replace(
        BEFORE,
        zones=BEFORE.zones[:-1],
        pools=tuple(p for p in BEFORE.pools if BEFORE.zones[-1] not in p.zones),
    )
    new = examples.templates(examples.synthesise(fewer))

    # Read backwards it is a zone that comes last: its subnet is new, and the others stay.
    found = harmful(list(changes(new, old, BEFORE.region)))

    assert {change.type for change in found} == {"AWS::EKS::Nodegroup", "AWS::APS::Scraper"}
    [name] = [
        resource["Properties"]["NodegroupName"]
        for resource in old[f"{BEFORE.name}-Cluster"]["Resources"].values()
        if resource["Type"] == "AWS::EKS::Nodegroup"
    ]
    assert isinstance(name, str), "CloudFormation replaces nothing that has a name of its own"


def test_a_pool_that_leaves_the_settings_takes_nothing_along() -> None:
    old = examples.templates(examples.assembly(examples.FULL))
    gone = f"{BEFORE.name}-Pool-{groups()[0].name}"

    found = changes(old, {name: old[name] for name in old if name != gone}, BEFORE.region)

    assert {(change.stack, change.fate) for change in found} == {(gone, Fate.LEFT)}


def test_data_is_retained_and_its_stack_is_protected() -> None:
    folder = examples.assembly(examples.FULL)
    manifest = json.loads((folder / "manifest.json").read_text())
    held = [
        resource
        for resource in examples.templates(folder)[DATA]["Resources"].values()
        if resource["Type"] in HOLDING
    ]

    assert {resource["Type"] for resource in held} == set(HOLDING)
    assert {resource["DeletionPolicy"] for resource in held} == {"Retain"}
    assert {resource["UpdateReplacePolicy"] for resource in held} == {"Retain"}
    assert manifest["artifacts"][DATA]["properties"]["terminationProtection"] is True


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [("AWS::S3::Bucket", "BucketName"), ("AWS::ECR::Repository", "RepositoryName")],
)
def test_the_judge_sees_a_planted_rename(resource_type: str, name: str) -> None:
    old = examples.templates(examples.assembly(examples.FULL))
    new = copy.deepcopy(old)
    logical_id, resource = next(
        (logical_id, resource)
        for logical_id, resource in new[DATA]["Resources"].items()
        if resource["Type"] == resource_type
    )
    resource["Properties"][name] = "planted"

    found = harmful(changes(old, new, BEFORE.region))

    assert (DATA, logical_id) in {(change.stack, change.logical_id) for change in found}


def test_the_judge_sees_a_key_that_was_taken_out() -> None:
    old = examples.templates(examples.assembly(examples.FULL))
    new = copy.deepcopy(old)
    logical_id = next(
        logical_id
        for logical_id, resource in old[DATA]["Resources"].items()
        if resource["Type"] == "AWS::KMS::Key"
    )
    del new[DATA]["Resources"][logical_id]

    fates = {change.logical_id: change.fate for change in changes(old, new, BEFORE.region)}

    assert fates[logical_id] is Fate.RELEASED
