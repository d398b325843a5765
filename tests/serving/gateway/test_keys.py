import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.keys import ClientKey, TrafficClass, keys_map, parse_keys

ONE, TWO = "a" * 64, "b" * 64


def test_a_file_of_keys_is_read_with_its_comments() -> None:
    text = f"# ours\n\n{ONE} interactive  the web shop # main\n  {TWO.upper()}\tbatch\n"

    keys = parse_keys(text, "keys")

    assert keys == (
        ClientKey(sha256=ONE, traffic=TrafficClass.INTERACTIVE, name="the web shop"),
        ClientKey(sha256=TWO, traffic=TrafficClass.BATCH),
    )
    assert keys_map(keys) == f"{ONE} interactive\n{TWO} batch\n"


def test_all_problems_of_a_file_are_told_at_once_with_line_and_remedy() -> None:
    text = f"{ONE} interactive\nshort batch\n{TWO}\n{'c' * 64} fast\n{ONE} batch\n"

    with pytest.raises(SpecError) as error:
        parse_keys(text, "/etc/keys")

    assert str(error.value).splitlines() == [
        "/etc/keys: 4 problems",
        "  line 2, sha256 = (5 characters), must be the 64 hexadecimal digits of a SHA-256",
        "  line 3, class = nothing, must be interactive or batch",
        "  line 4, class = fast, must be interactive or batch",
        "  line 5, sha256 = (64 characters), must not repeat an earlier line",
    ]


def test_a_key_in_the_place_of_its_hash_is_not_shown() -> None:
    with pytest.raises(SpecError) as error:
        parse_keys("sk-very-secret interactive\nsk-very-secret sk-very-secret\n", "keys")

    assert "secret" not in str(error.value)


@given(st.text())
def test_any_text_is_keys_or_a_spec_error(text: str) -> None:
    try:
        keys = parse_keys(text, "keys")
    except SpecError:
        return
    assert parse_keys(keys_map(keys), "again") == tuple(
        ClientKey(sha256=key.sha256, traffic=key.traffic) for key in keys
    )
