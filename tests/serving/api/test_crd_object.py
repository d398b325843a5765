"""Objects as an API server gives them: read with their metadata, whatever version stored them."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.canary import Canary
from neuronfleet.serving.api.fields import regex_problem
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.variant import Pins
from tests.crd_documents import Document, document, full, problems, variant


def stored(**spec: object) -> Document:
    given = document(**spec)
    given["metadata"] |= {
        "namespace": "models",
        "uid": "7",
        "resourceVersion": "12",
        "generation": 3,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {}}],
        "ownerReferences": [],
    }
    return given | {"status": {"desired": 2, "conditions": []}}


def test_an_object_is_read_with_its_status_and_all_its_metadata() -> None:
    assert fleet.from_object(stored()).name == "f"


def test_fields_that_another_version_stored_stop_nothing_at_any_depth() -> None:
    odd = stored(
        priority=5,
        variants=[variant(colour="blue", kvCache={"dtype": "fp8", "shape": "round"})],
        drain={"timeout": "5m", "politely": True},
    )

    one = fleet.from_object(odd)

    assert one.drain_s == 300
    assert one.variants[0].kv_cache.dtype == "fp8"


def test_wrong_values_stop_it_and_are_all_named() -> None:
    wrong = stored(replicas=-1, drain={"timeout": "soon"})

    with pytest.raises(SpecError, match="ServingFleet f: 2 problems"):
        fleet.from_object(wrong)
    assert {one.path for one in problems(wrong)} == {"spec.replicas", "spec.drain.timeout"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "metadata.name"),
        (stored() | {"kind": "Pod"}, "kind"),
        (stored() | {"apiVersion": "neuronfleet.dev/v9"}, "apiVersion"),
        (stored() | {"spec": None}, "spec.model.name"),
    ],
)
def test_what_is_no_fleet_is_named(given: Document, path: str) -> None:
    assert path in {one.path for one in problems(given)}


def test_an_item_of_a_list_needs_no_kind() -> None:
    bare = {key: value for key, value in stored().items() if key in ("metadata", "spec")}

    assert fleet.from_object(bare) == fleet.from_object(stored())


def test_no_file_is_read_for_an_object(tmp_path: object) -> None:
    model = {"name": "m", "source": {"path": "/"}, "config": "/etc/passwd"}

    assert fleet.from_object(document(model=model)).model.architecture is None


def test_the_additions_of_a_cluster_are_read_and_have_defaults() -> None:
    one, plain = fleet.from_object(full()), fleet.from_object(document())

    assert one.model.source.service_account == "reader"
    assert one.canary == Canary(prompt="1 + 1 =", max_tokens=2, expect="^ ?2")
    assert one.variants[0].pins == Pins(sdk="2.31", driver="2.29", ami="v20260720")
    assert plain.model.source.service_account is None
    assert plain.canary == Canary(prompt="The capital of France is", max_tokens=4, expect=None)
    assert plain.variants[0].pins == Pins()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"canary": {"expect": "Par(is"}}, "spec.canary.expect = Par(is, must be a regular"),
        ({"canary": {"expect": "a(?=b)"}}, "(?= is unknown to RE2"),
        ({"canary": {"expect": r"(a)\1"}}, r"\1 is unknown to RE2"),
        ({"canary": {"maxTokens": 65}}, "spec.canary.maxTokens = 65, must be in [1, 64]"),
        ({"variants": [variant(pins={"sdk": 2.31})]}, "spec.variants[0].pins.sdk = 2.31, must be"),
        ({"variants": [variant(env={"A": 1})]}, "spec.variants[0].env.A = 1, must be a string"),
        ({"variants": [variant(name="a.b")]}, "spec.variants[0].name = a.b, must match"),
        ({"variants": [variant(image="x" * 1025)]}, "1025 characters, must hold at most 1024"),
        ({"variants": [variant(name=f"v{n}") for n in range(17)]}, "17 items, must hold at most"),
        ({"variants": [variant(zones=["z"] * 65)]}, "65 strings, must be at most 64 strings"),
        ({"model": {"name": "é", "source": {"path": "/m"}}}, "spec.model.name = é, must match"),
        ({"mode": "Actve"}, "must be one of Active, Advisory; did you mean Active?"),
    ],
)
def test_a_wrong_addition_says_what_would_do(spec: Document, expected: str) -> None:
    assert any(expected in str(one) for one in problems(document(**spec)))


@pytest.mark.parametrize("text", ["Paris", r"\(?=", r"\\1", "^ ?2$", r"[[:alpha:]]", "a{2,3}?"])
def test_an_expression_of_both_dialects_is_taken(text: str) -> None:
    assert regex_problem(text) is None


@given(st.text(alphabet="ab()[]{}?*+|\\^$.=!<:1P,", max_size=12))
def test_no_text_ends_in_anything_but_an_expression_or_a_reason(text: str) -> None:
    assert regex_problem(text) is None or regex_problem(text)


def test_a_time_may_come_as_a_string_or_as_yaml_reads_it() -> None:
    moment = datetime.fromisoformat("2026-12-01T11:30:00+00:00")
    for ends in (moment, "2026-12-01T11:30:00Z", "2026-12-01T12:30:00.0+01:00"):
        block = variant(reservation={"id": "cr-1", "endsAt": ends})
        reservation = fleet.from_object(document(variants=[block])).variants[0].reservation

        assert reservation is not None
        assert reservation.ends_at == moment
