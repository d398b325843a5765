"""What AWS says of each resource type, from cfn-lint's copy of the CloudFormation registry."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
import regex  # type: ignore[import-untyped]  # it has no stubs
from cfnlint.schema import ResourceNotFoundError
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER


def _matches(
    validator: object, pattern: str, value: object, _: object
) -> Iterator[jsonschema.ValidationError]:
    if isinstance(value, str) and not regex.search(pattern, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


# Patterns of the registry are not all Python's. The call is untyped in the stubs.
Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft7Validator, {"pattern": _matches}
)


@cache
def schema(region: str, resource_type: str) -> Mapping[str, Any] | None:
    """The registry's schema of a type; None where the region has no such type."""
    try:
        found: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(
            region, resource_type
        ).schema
    except ResourceNotFoundError:
        return None
    return found


def coerced(region: str, resource_type: str, properties: Mapping[str, object]) -> dict[str, Any]:
    """Properties in the types of the registry: CloudFormation takes "4" for 4, true for "true"."""
    found = schema(region, resource_type)
    if found is None:
        return dict(properties)
    result: dict[str, Any] = _coerced(found, found, dict(properties))
    return result


def _coerced(root: Mapping[str, Any], part: Mapping[str, Any], value: Any) -> Any:
    if "$ref" in part:
        part = root["definitions"][part["$ref"].rsplit("/", 1)[1]]
    if isinstance(value, dict):
        known = part.get("properties", {})
        return {key: _coerced(root, known.get(key, {}), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_coerced(root, part.get("items", {}), item) for item in value]
    return _scalar(part.get("type"), value)


def _scalar(wanted: object, value: Any) -> Any:
    if wanted == "string" and isinstance(value, bool):
        return str(value).lower()
    if wanted == "string" and isinstance(value, int | float):
        return str(value)
    if wanted == "boolean" and value in ("true", "false"):
        return value == "true"
    if isinstance(value, str):
        if wanted == "integer" and regex.fullmatch(r"-?\d+", value):
            return int(value)
        if wanted == "number" and regex.fullmatch(r"-?\d+(\.\d+)?", value):
            return float(value)
    return value


def problems(region: str, resource_type: str, properties: Mapping[str, object]) -> list[str]:
    """What CloudFormation would refuse of coerced properties, each with its path and value."""
    found = schema(region, resource_type)
    if found is None:
        return [f"{resource_type} is no resource type of {region}"]
    read_only = {name for name in properties if f"/properties/{name}" in _paths(found)}
    lines = [f"{name} is read-only" for name in sorted(read_only)]
    for error in Validator(found).iter_errors(dict(properties)):
        where = "/".join(map(str, error.absolute_path)) or "properties"
        lines.append(f"{where}: {error.message}")
    return lines


def _paths(found: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(found.get("readOnlyProperties", ()))


def attributes(region: str, resource_type: str) -> frozenset[str]:
    """What Fn::GetAtt may name of a type, nested ones with dots."""
    found = schema(region, resource_type) or {}
    return frozenset(path.removeprefix("/properties/").replace("/", ".") for path in _paths(found))


def identifier(region: str, resource_type: str) -> tuple[str, ...]:
    """The properties that together are the physical ID: what Ref gives."""
    found = schema(region, resource_type) or {}
    return tuple(p.removeprefix("/properties/") for p in found.get("primaryIdentifier", ()))


def create_only(region: str, resource_type: str) -> tuple[str, ...]:
    """Paths below the properties whose change replaces the resource, certainly or under conditions.

    Conditional ones count: whether a change meets the condition is not in the schema.
    """
    found = schema(region, resource_type) or {}
    listed = (
        *found.get("createOnlyProperties", ()),
        *found.get("conditionalCreateOnlyProperties", ()),
    )
    return tuple(path.removeprefix("/properties/") for path in listed)


def longest_name(region: str, resource_type: str, name: str) -> int:
    """Characters that a type's name may have; 63 where the schema does not say."""
    found = schema(region, resource_type) or {}
    limit = found.get("properties", {}).get(name, {}).get("maxLength", 63)
    return int(limit)
