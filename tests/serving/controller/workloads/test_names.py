"""Every object has a name that Kubernetes takes and that no other object has."""

import re

from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.controller.workloads import object_name, owner_reference
from tests.serving.controller.workloads.fleets import INF2, NAMES, a_fleet, revision

REVISIONS = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def test_a_name_is_fleet_variant_and_revision() -> None:
    assert object_name("llama-8b", "inf2-4k", "0123abcd") == "llama-8b-inf2-4k-0123abcd"


def test_what_is_cut_leaves_a_digest_in_its_place() -> None:
    name = object_name("f" * 63, "v" * 63, "0123abcd")

    assert len(name) == 63
    assert re.fullmatch(r"f+-[0-9a-f]{8}-0123abcd", name)


def test_a_digit_in_front_would_be_no_service_name() -> None:
    assert re.fullmatch(r"f-8b-inf2-[0-9a-f]{8}-0123abcd", object_name("8b", "inf2", "0123abcd"))


@given(fleet=NAMES, variant=NAMES, revision=REVISIONS)
def test_every_name_is_a_dns_1035_label_that_ends_in_its_revision(
    fleet: str, variant: str, revision: str
) -> None:
    name = object_name(fleet, variant, revision)

    assert len(name) <= 63
    assert DNS_1035.fullmatch(name)
    assert name.endswith(f"-{revision}")


@given(st.lists(st.tuples(NAMES, NAMES, REVISIONS), min_size=2, max_size=8, unique=True))
def test_names_of_different_revisions_differ_and_of_one_revision_by_fleet_and_variant(
    triples: list[tuple[str, str, str]],
) -> None:
    # Equal revisions of pairs that join alike do not happen: a revision covers both names.
    apart = {
        (f"{fleet}-{variant}", revision): (fleet, variant) for fleet, variant, revision in triples
    }

    assert len({object_name(*pair, revision) for (_, revision), pair in apart.items()}) == len(
        apart
    )


def test_pairs_that_join_alike_are_told_apart_by_their_revisions() -> None:
    one = a_fleet(INF2 | {"name": "c"}, name="a-b")
    other = a_fleet(INF2 | {"name": "b-c"}, name="a")

    assert object_name("a-b", "c", revision(one)) != object_name("a", "b-c", revision(other))


@given(fleet=st.text("ab-", min_size=40, max_size=60), revision=REVISIONS)
def test_long_names_with_a_common_beginning_differ(fleet: str, revision: str) -> None:
    names = {object_name(f"a{fleet}x", variant, revision) for variant in ("inf2-a", "inf2-b")}

    assert len(names) == 2


def test_children_go_with_their_fleet_and_know_their_controller() -> None:
    body = {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {"name": "f", "namespace": "team", "uid": "u"},
    }

    assert owner_reference(body) == {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "name": "f",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
