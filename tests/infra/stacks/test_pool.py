import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from neuronfleet.infra.settings.model import Pool
from neuronfleet.serving.api.problems import SpecError
from tests.infra.pools.synthesis import BLOCK, EFA, POOLS, RESERVED, Template, stack, synthesised

EACH = pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
NOT_KNOWN = ("E3628",)
"""cfn-lint's list of types lacks trn2u."""


def differences(before: object, after: object, path: str = "") -> set[str]:
    """Paths at which two templates differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        return set().union(
            *(
                differences(before.get(key), after.get(key), f"{path}/{key}")
                for key in before.keys() | after.keys()
            )
        )
    return set() if before == after else {path}


def replaced(before: Template, after: Template) -> set[str]:
    """Resources whose create-only properties differ, or that are gone."""
    found = set()
    for logical, old in before["Resources"].items():
        new = after["Resources"].get(logical)
        if new is None or new["Type"] != old["Type"]:
            found.add(logical)
            continue
        if old["Type"].startswith("Custom::"):
            continue
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", old["Type"]).schema
        for pointer in schema.get("createOnlyProperties", []):
            key = pointer.removeprefix("/properties/").split("/")[0]
            if old.get("Properties", {}).get(key) != new.get("Properties", {}).get(key):
                found.add(logical)
    return found


@pytest.mark.parametrize("pool", [RESERVED, EFA], ids=lambda pool: pool.name)
def test_another_bound_changes_the_bound_and_nothing_else(pool: Pool) -> None:
    more = synthesised(replace(pool, most=pool.most + 3))

    assert differences(synthesised(pool), more) == {
        "/Resources/NodeGroup/Properties/ScalingConfig/MaxSize"
    }


def test_another_bound_of_a_block_also_changes_how_far_it_grows() -> None:
    fewer = synthesised(replace(BLOCK, most=3))

    assert {path.split("/", 4)[-1] for path in differences(synthesised(BLOCK), fewer)} == {
        "ScalingConfig/MaxSize",
        "Target/Input",
        "Description",
    }
    assert replaced(synthesised(BLOCK), fewer) == set()


@pytest.mark.parametrize(
    "change",
    [
        {"most": 2},
        {"root_gib": 900},
        {"ami_release": "v20260505"},
        {"logical_core_size": 1},
        {"models": ()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_change_of_a_setting_replaces_a_live_pool(change: dict[str, Any]) -> None:
    changed = synthesised(replace(BLOCK, **change))
    core = {"NodeGroup", "Template", "NodeRole", "LifecycleGrow", "LifecycleShrink"}

    gone = replaced(synthesised(BLOCK), changed)
    assert not [one for one in gone if one.startswith(tuple(core))]


def test_what_would_replace_the_group_meets_its_fixed_name() -> None:
    """CloudFormation replaces no resource of a fixed name: the update fails, the nodes stay."""
    moved = synthesised(replace(BLOCK, zones=("use2-az1",)))
    name = synthesised(BLOCK)["Resources"]["NodeGroup"]["Properties"]["NodegroupName"]

    assert replaced(synthesised(BLOCK), moved) == {"NodeGroup"}
    assert moved["Resources"]["NodeGroup"]["Properties"]["NodegroupName"] == name == "full-trn2"


@EACH
def test_two_syntheses_give_the_same_template(pool: Pool) -> None:
    first = json.dumps(synthesised(pool))
    synthesised.cache_clear()

    assert json.dumps(synthesised(pool)) == first


@EACH
def test_nothing_of_the_retired_device_plugin_is_left(pool: Pool) -> None:
    text = json.dumps(synthesised(pool))

    assert "neuron-device-plugin" not in text
    assert "0.0.0.0/0" not in text


@EACH
def test_cfn_lint_finds_nothing(pool: Pool) -> None:
    config = ManualArgs(regions=["us-east-2"], ignore_checks=list(NOT_KNOWN))

    assert lint(json.dumps(synthesised(pool)), config=config) == []


@EACH
def test_cdk_nag_finds_nothing_that_is_not_excused(pool: Pool, tmp_path: Path) -> None:
    app = stack(pool, outdir=str(tmp_path)).node.root
    assert isinstance(app, App)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))

    app.synth()


def test_a_zone_outside_the_network_is_refused() -> None:
    with pytest.raises(SpecError, match=r"zones = use2-az2, must be one of use2-az1, use2-az3"):
        stack(replace(BLOCK, zones=("use2-az2",)))


def test_two_zones_are_refused() -> None:
    with pytest.raises(SpecError, match=r"zones = use2-az1, use2-az3, must be one of"):
        stack(replace(BLOCK, zones=("use2-az1", "use2-az3")))


def test_a_type_that_nobody_recorded_is_refused() -> None:
    with pytest.raises(SpecError, match=r"instanceType = trn9\.large"):
        stack(replace(BLOCK, instance_type="trn9.large"))
