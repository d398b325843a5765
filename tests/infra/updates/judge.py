"""What CloudFormation would do to each resource, from two syntheses alone.

A change of a property that a type's schema calls create-only replaces the resource, and whatever
refers to the replaced one in a create-only property of its own, over stacks too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tests.infra.deploy.emulator import schema

Template = Mapping[str, Any]
Key = tuple[str, str]
"""Stack and logical ID."""

CUSTOM_CREATE_ONLY = {
    "Custom::AWSCDK-EKS-HelmChart": ("ClusterName", "Namespace", "Release"),
    "Custom::AWSCDK-EKS-KubernetesResource": ("ClusterName",),
}
"""What CDK's handlers turn into another release or another object."""
VOLATILE = {"LatestVersionNumber", "DefaultVersionNumber"}
"""Attributes of a launch template that every update of it changes."""
INTRINSICS = ("Ref", "Fn::")


class Fate(StrEnum):
    """What becomes of a resource."""

    ADDED = "added"
    UPDATED = "updated"
    """In place."""
    REPLACED = "replaced"
    """A new one is made, then the old one goes or is left behind."""
    DELETED = "deleted"
    RELEASED = "released"
    """No longer the stack's, but retained."""
    LEFT = "left"
    """Its stack is no longer in the app: `cdk deploy` does not touch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One resource's fate."""

    stack: str
    logical_id: str
    type: str
    fate: Fate
    because: tuple[str, ...] = ()
    """Properties that changed, or what it refers to."""


def changes(
    before: Mapping[str, Template], after: Mapping[str, Template], region: str
) -> list[Change]:
    """The fate of every resource that an update touches, by stack and logical ID."""
    old, new = _resources(before), _resources(after)
    found = {key: _gone(key, resource, after) for key, resource in old.items() if key not in new}
    for key, resource in new.items():
        if change := _own(key, old.get(key), resource, region):
            found[key] = change
    _spread(found, new, after, region)
    return [found[key] for key in sorted(found)]


def harmful(found: list[Change]) -> list[Change]:
    """Replacements and deletions, but of what holds nothing and serves nothing."""
    return [
        change
        for change in found
        if change.fate in (Fate.REPLACED, Fate.DELETED) and change.type not in DISPOSABLE
    ]


DISPOSABLE = {
    "AWS::CDK::Metadata": "is nothing",
    "AWS::Lambda::LayerVersion": "versions of layers are immutable; functions take the new one",
    "AWS::Lambda::Permission": "a new right to call a function is there before the old goes",
}
"""Types that may be replaced, and why."""


def _resources(templates: Mapping[str, Template]) -> dict[Key, Template]:
    return {
        (stack, logical_id): resource
        for stack, template in templates.items()
        for logical_id, resource in template.get("Resources", {}).items()
    }


def _gone(key: Key, resource: Template, after: Mapping[str, Template]) -> Change:
    retained = resource.get("DeletionPolicy", "Delete") != "Delete"
    fate = Fate.RELEASED if retained else Fate.DELETED
    if key[0] not in after:
        fate = Fate.LEFT
    return _change(key, resource, fate)


def _own(key: Key, old: Template | None, new: Template, region: str) -> Change | None:
    """What a resource's own template text makes of it."""
    if old is None:
        return _change(key, new, Fate.ADDED)
    if old["Type"] != new["Type"]:
        return _change(key, new, Fate.REPLACED, "Type")
    earlier, later = old.get("Properties", {}), new.get("Properties", {})
    fixed = [
        path for path in create_only(new["Type"], region) if _at(earlier, path) != _at(later, path)
    ]
    if fixed:
        return _change(key, new, Fate.REPLACED, *fixed)
    names = sorted({*earlier, *later})
    changed = [name for name in names if earlier.get(name) != later.get(name)]
    return _change(key, new, Fate.UPDATED, *changed) if changed else None


def _change(key: Key, resource: Template, fate: Fate, *because: str) -> Change:
    return Change(
        stack=key[0], logical_id=key[1], type=resource["Type"], fate=fate, because=because
    )


def create_only(resource_type: str, region: str) -> tuple[str, ...]:
    """Paths of properties whose change replaces a resource of a type."""
    custom = resource_type.startswith("Custom::")
    return (
        CUSTOM_CREATE_ONLY.get(resource_type, ())
        if custom
        else schema.create_only(region, resource_type)
    )


def _at(value: Any, path: str) -> Any:
    """What stands at a path; an intrinsic on the way stands for all below it."""
    for index, name in enumerate(parts := path.split("/")):
        if isinstance(value, list):
            rest = "/".join(parts[index + (name == "*") :])
            return [_at(item, rest) if rest else item for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1 and next(iter(value)).startswith(INTRINSICS):
            return value
        value = value.get(name)
    return value


def _spread(
    found: dict[Key, Change],
    new: Mapping[Key, Template],
    after: Mapping[str, Template],
    region: str,
) -> None:
    """Carry replacements and new versions to whatever refers to them, until nothing moves."""
    moved = True
    while moved:
        moved = False
        for key, resource in new.items():
            known = found.get(key)
            if known and known.fate in (Fate.ADDED, Fate.REPLACED):
                continue
            change = _referring(key, resource, found, after, region)
            if change is None:
                continue
            reasons = {*change.because, *(known.because if known else ())}
            merged = replace(change, because=tuple(sorted(reasons)))
            if merged != known:
                found[key], moved = merged, True


def _referring(
    key: Key,
    resource: Template,
    found: Mapping[Key, Change],
    after: Mapping[str, Template],
    region: str,
) -> Change | None:
    properties = resource.get("Properties", {})
    fixed = [
        path
        for path in create_only(resource["Type"], region)
        if _stale(_at(properties, path), key[0], found, after)
    ]
    if fixed:
        return _change(key, resource, Fate.REPLACED, *fixed)
    loose = [name for name in properties if _stale(properties[name], key[0], found, after)]
    return _change(key, resource, Fate.UPDATED, *loose) if loose else None


def _stale(
    value: Any, stack: str, found: Mapping[Key, Change], after: Mapping[str, Template]
) -> bool:
    """Whether a value will be another one, for what it refers to."""
    for target, attribute in references(value, stack, after):
        change = found.get(target)
        if change is None:
            continue
        if change.fate is Fate.REPLACED:
            return True
        if change.fate is Fate.UPDATED and attribute in VOLATILE:
            return True
    return False


def references(
    value: Any, stack: str, templates: Mapping[str, Template]
) -> Iterator[tuple[Key, str | None]]:
    """Resources that a value refers to, and by which attribute; outputs of stacks are followed."""
    if isinstance(value, list):
        for item in value:
            yield from references(item, stack, templates)
    if not isinstance(value, Mapping):
        return
    match value:
        case {"Ref": str(logical_id)}:
            yield (stack, logical_id), None
        case {"Fn::GetAtt": [str(logical_id), str(attribute)]}:
            yield (stack, logical_id), attribute
        case {"Fn::GetStackOutput": {"StackName": str(producer), "OutputName": str(output)}}:
            inner = templates.get(producer, {}).get("Outputs", {}).get(output, {})
            yield from references(inner.get("Value"), producer, templates)
        case {"Fn::ImportValue": str(name)}:
            for producer, template in templates.items():
                for output in template.get("Outputs", {}).values():
                    if output.get("Export", {}).get("Name") == name:
                        yield from references(output["Value"], producer, templates)
        case _:
            for item in value.values():
                yield from references(item, stack, templates)
