"""The OpenAPI schema of a spec, made of what the parser asks for."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.descriptions import describe
from neuronfleet.serving.api.recorder import Reading, record
from neuronfleet.serving.api.rules import Rule, rules

_VALIDATIONS = "x-kubernetes-validations"
_MAP_KEYS = {"spec.variants": "name"}
"""Lists of named things: a name is there once, and two appliers may own an entry each."""
_ORDER = ("description", "type", "format", "default", "enum", "pattern")


def spec_schema() -> dict[str, Any]:
    """The structural schema of `spec`."""
    held = rules()
    readings = {"spec": Reading(schema={"type": "object"}), **recorded()}
    schema = _schema("spec", readings, held)
    if held:
        raise KeyError(f"rules for {', '.join(held)}, must be for fields that the parser reads")
    return schema


@cache
def recorded() -> Mapping[str, Reading]:
    """What the parser asks of a spec, by path."""
    return record(lambda fields: fleet.read_spec("fleet", fields, None), "spec")


def _schema(
    path: str, readings: Mapping[str, Reading], held: dict[str, list[Rule]]
) -> dict[str, Any]:
    """The schema at `path`; takes the rules that it places out of `held`."""
    reading = readings[path]
    schema = {"description": describe(path), **reading.schema}
    if reading.defaults and reading.default is not None:
        schema["default"] = reading.default
    if schema["type"] == "array" and "items" not in schema:
        items = _object(f"{path}[]", readings, held)
        schema["items"] = ordered({"description": describe(f"{path}[]"), **items})
        if reading.required:
            schema["minItems"] = 1
    elif schema["type"] == "object" and len(schema) == 2:
        schema |= _object(path, readings, held)
    if path in _MAP_KEYS:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = [_MAP_KEYS[path]]
    if placed := held.pop(path, []):
        schema[_VALIDATIONS] = [*schema.get(_VALIDATIONS, []), *placed]
    return ordered(schema)


def _object(
    path: str, readings: Mapping[str, Reading], held: dict[str, list[Rule]]
) -> dict[str, Any]:
    names = {one.rpartition(".")[2]: one for one in readings if one.rpartition(".")[0] == path}
    schema: dict[str, Any] = {"type": "object"}
    if required := [name for name, one in names.items() if readings[one].required]:
        schema["required"] = required
    schema["properties"] = {name: _schema(one, readings, held) for name, one in names.items()}
    if path.endswith("[]") and (placed := held.pop(path, [])):
        schema[_VALIDATIONS] = placed
    return schema


def ordered(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, with what a reader looks for first in front."""
    last = [key for key in ("required", "properties", "items", _VALIDATIONS) if key in schema]
    first = [key for key in _ORDER if key in schema]
    rest = [key for key in schema if key not in (*first, *last)]
    return {key: schema[key] for key in (*first, *rest, *last)}
