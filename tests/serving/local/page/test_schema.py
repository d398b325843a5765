from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

SCHEMA = json.loads(
    (Path(__file__).parents[4] / "docs" / "schemas" / "state.json").read_text(encoding="utf-8")
)
Rich = Callable[..., dict[str, Any]]


def complaints(state: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(state)]


def objects(schema: Any, path: str = "state") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, inner in schema.items():
            yield from objects(inner, f"{path}.{key}")
    if isinstance(schema, list):
        for inner in schema:
            yield from objects(inner, path)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_a_rich_state_is_valid(rich: Rich, make_fleet: Rich) -> None:
    assert complaints(rich()) == []
    assert complaints(rich(make_fleet("chat"), make_fleet("batch"))) == []


def test_a_state_of_which_nothing_is_known_is_valid(rich: Rich, unknown: dict[str, Any]) -> None:
    state = rich(unknown)
    state["budget"] = state["duration_s"] = None
    state["metrics"] = {"fresh": False, "age_s": None, "source": "gateway"}

    assert complaints(state) == []


@pytest.mark.parametrize("wrong", [-1, "14", True])
def test_a_load_that_is_no_count_is_refused(rich: Rich, wrong: object) -> None:
    state = rich()
    state["fleets"][0]["now"]["load"] = wrong

    assert len(complaints(state)) == 1


def test_every_object_is_closed_and_every_field_is_described_and_required() -> None:
    found = dict(objects(SCHEMA))

    assert len(found) > 8
    for path, schema in found.items():
        assert schema["additionalProperties"] is False, path
        assert sorted(schema["required"]) == sorted(schema["properties"]), path
        for name, field in schema["properties"].items():
            assert field.get("description"), f"{path}.{name} has no description"
