"""Pairs of SDK, driver and AMI that are known not to run are named; the unknown is only said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api import pins
from neuronfleet.serving.api.hardware import instance_type
from neuronfleet.serving.api.pins import NodeFacts
from neuronfleet.serving.api.variant import Pins, Variant


def a_variant(instance: str = "inf2.xlarge", generation: int | None = 1, **pinned: Any) -> Variant:
    return Variant(
        name="inf2",
        instance=instance_type(instance),
        generation=generation,
        max_model_len=2048,
        max_num_seqs=32,
        pins=Pins(**pinned),
    )


def said(variant: Variant, *nodes: NodeFacts) -> list[str]:
    return [str(clash) for clash in pins.check(variant, nodes)]


def test_a_clash_names_the_pair_the_bound_and_its_source() -> None:
    (clash,) = said(a_variant(sdk="2.30"))

    assert clash.startswith(
        "variant inf2 pins SDK 2.30 on inf2.xlarge with backend generation 1, "
        "must be at most 2.28 (AWS Neuron SDK 2.32.0, release notes of nxd-inference"
    )


@pytest.mark.parametrize(
    ("instance", "generation", "sdk", "clashes"),
    [
        ("inf2.xlarge", 1, "2.28", 0),
        ("inf2.xlarge", 1, "2.28.1", 0),
        ("inf2.xlarge", 1, "2.29", 1),
        ("trn1.32xlarge", 1, "2.31.1", 1),
        ("trn2.48xlarge", 1, "2.31.1", 0),
        ("trn2.48xlarge", 1, "2.32", 1),
        ("trn2.48xlarge", 2, "2.30", 1),
        ("trn2.48xlarge", 2, "2.31", 0),
        ("trn2.48xlarge", 2, "2.32.0", 0),
        ("trn3-gen1-ultraserver", 2, "2.9", 1),
        ("g5.2xlarge", None, "2.9", 0),
    ],
)
def test_each_generation_has_the_sdks_that_serve_its_chip(
    instance: str, generation: int | None, sdk: str, clashes: int
) -> None:
    assert len(said(a_variant(instance, generation, sdk=sdk))) == clashes


@pytest.mark.parametrize(
    ("sdk", "driver", "clashes"),
    [
        ("2.31", "2.29", 0),
        ("2.30", "2.29", 1),
        ("2.30", "2.28.0", 0),
        ("2.30", "2.27.4", 0),
        ("2.30", "2.26.5", 1),
        ("2.32", "2.29", 0),
    ],
)
def test_drivers_are_checked_against_the_runtime_of_the_sdk(
    sdk: str, driver: str, clashes: int
) -> None:
    one = a_variant("trn2.48xlarge", 1 if sdk == "2.30" else 2, sdk=sdk, driver=driver)

    assert len(said(one)) == clashes


@pytest.mark.parametrize(
    ("ami", "clashes"),
    [
        ("v20260403", 0),
        ("v20260714", 1),
        ("amazon-eks-node-al2023-x86_64-neuron-1.33-v20260801", 1),
        ("ami-0123456789abcdef0", 0),
    ],
)
def test_a_container_of_an_old_sdk_must_not_meet_a_new_ami(ami: str, clashes: int) -> None:
    assert len(said(a_variant(sdk="2.28", ami=ami))) == clashes
    assert len(said(a_variant(sdk="2.28"), NodeFacts(name="n", ami=ami))) == clashes


def test_a_nodes_driver_follows_from_its_sdk_where_it_says_no_more() -> None:
    (clash,) = said(a_variant(sdk="2.28"), NodeFacts(name="n1", sdk="2.31.0"))

    assert "SDK 2.28 with driver 2.29 of node n1 (by its SDK 2.31.0), must be below 2.29" in clash


def test_a_node_that_is_not_what_was_pinned_clashes() -> None:
    node = NodeFacts(name="n1", driver="2.27.4", ami="v20260409")

    found = said(a_variant(driver="2.26", ami="v20260403"), node)

    assert [text.partition(" (")[0] for text in found] == [
        "variant inf2 pins driver 2.26, node n1 has 2.27.4, must be 2.26",
        "variant inf2 pins AMI v20260403, node n1 has v20260409, must be v20260403",
    ]


def test_a_pin_of_two_parts_holds_all_releases_of_it() -> None:
    assert said(a_variant(sdk="2.28", driver="2.26"), NodeFacts(name="n", driver="2.26.10")) == []


def test_nodes_of_other_instance_types_do_not_matter_and_unknown_ones_do() -> None:
    other = NodeFacts(name="n", driver="2.29", instance_type="trn2.48xlarge")
    unknown = NodeFacts(name="n", driver="2.29")

    assert said(a_variant(sdk="2.28"), other) == []
    assert len(said(a_variant(sdk="2.28"), unknown)) == 1


def test_nothing_pinned_and_nothing_known_is_no_clash_but_is_said() -> None:
    one = a_variant()

    assert said(one, NodeFacts(name="n")) == []
    assert pins.unknowns(one, [NodeFacts(name="n")]) == [
        "variant inf2 pins no SDK: nothing of its image could be checked"
    ]


def test_a_pair_of_which_no_note_speaks_is_said() -> None:
    one = a_variant("trn2.48xlarge", 2, sdk="2.32", driver="2.29", ami="v20260714")

    assert said(one) == []
    assert pins.unknowns(
        one, [NodeFacts(name="n", driver="2.29", instance_type="inf2.xlarge")]
    ) == [
        "variant inf2 pins SDK 2.32 with driver 2.29: no release note tells whether it runs",
        "variant inf2 pins SDK 2.32 with AMI v20260714: no release note tells whether it runs",
    ]


def test_a_known_good_set_leaves_nothing_open() -> None:
    one = a_variant(sdk="2.28", driver="2.26", ami="v20260310")
    node = NodeFacts(name="n", sdk="2.28", driver="2.26.3", ami="v20260310")

    assert said(one, node) == []
    assert pins.unknowns(one, [node]) == []


def test_a_node_without_labels_is_said() -> None:
    assert pins.unknowns(a_variant(sdk="2.28"), [NodeFacts(name="n9")]) == [
        "node n9 does not say its driver and AMI"
    ]


def test_every_rule_and_every_good_pair_agree() -> None:
    for row in pins._data()["good"]:
        generation = 1 if row["sdk"] == "2.28" else 2 if row["sdk"] >= "2.31" else None
        if generation is None:
            continue
        ami = row["ami"][0] if row["ami"] else None
        instance = "inf2.xlarge" if generation == 1 else "trn2.48xlarge"
        one = a_variant(instance, generation, sdk=row["sdk"], driver=row["driver"], ami=ami)
        assert said(one) == []


def test_every_rule_names_its_source() -> None:
    assert all(len(rule["source"]) > 40 for rule in pins._data()["rules"])
    assert pins._data()["goodSource"]


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_versions_that_cannot_be_read_are_unknown_and_break_nothing(
    sdk: str, driver: str, ami: str
) -> None:
    one = a_variant(sdk=sdk, driver=driver, ami=ami)
    node = NodeFacts(name="n", sdk=sdk, driver=driver, ami=ami)

    assert all(clash.variant == "inf2" for clash in pins.check(one, [node]))
    assert isinstance(pins.unknowns(one, [node]), list)
