"""What `cdk synth` wrote: its stacks, their order, and what of each stays when it is deleted."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuronfleet.serving.api.problems import SpecError

_STACK = "aws:cloudformation:stack"
_KEPT = ("Retain", "RetainExceptOnCreate", "Snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a template."""

    logical_id: str
    kind: str
    """As AWS::S3::Bucket."""
    is_kept: bool
    """Whether it outlives its stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisedStack:
    """One stack of an assembly."""

    id: str
    is_protected: bool
    """Whether termination protection is on."""
    depends_on: tuple[str, ...]
    """Stacks that come before it."""
    resources: tuple[Resource, ...]

    @property
    def kept(self) -> tuple[Resource, ...]:
        """What outlives the stack."""
        return tuple(one for one in self.resources if one.is_kept)

    @property
    def gone(self) -> Mapping[str, int]:
        """How many of each type go with it."""
        return Counter(one.kind for one in self.resources if not one.is_kept)


def read(folder: Path) -> tuple[SynthesisedStack, ...]:
    """The stacks of an assembly, each after those that it depends on.

    Raises:
        SpecError: the folder is no assembly.
    """
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        artifacts: Mapping[str, Any] = manifest["artifacts"]
        names = [key for key, one in artifacts.items() if one["type"] == _STACK]
        stacks = {key: _stack(folder, key, artifacts[key], names) for key in names}
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise SpecError(
            f"--assembly = {folder}, must be a folder that `npx cdk synth` wrote ({wrong!r})"
        ) from wrong
    return _ordered(stacks)


def _stack(
    folder: Path, key: str, artifact: Mapping[str, Any], names: list[str]
) -> SynthesisedStack:
    properties = artifact["properties"]
    template = json.loads((folder / properties["templateFile"]).read_text(encoding="utf-8"))
    resources = tuple(
        Resource(logical_id=name, kind=one["Type"], is_kept=one.get("DeletionPolicy") in _KEPT)
        for name, one in template.get("Resources", {}).items()
        if one["Type"] != "AWS::CDK::Metadata"
    )
    return SynthesisedStack(
        id=properties.get("stackName", key),
        is_protected=bool(properties.get("terminationProtection")),
        depends_on=tuple(name for name in artifact.get("dependencies", ()) if name in names),
        resources=resources,
    )


def _ordered(stacks: Mapping[str, SynthesisedStack]) -> tuple[SynthesisedStack, ...]:
    found: dict[str, SynthesisedStack] = {}

    def visit(key: str) -> None:
        if key not in found:
            for before in stacks[key].depends_on:
                visit(before)
            found[key] = stacks[key]

    for key in stacks:
        visit(key)
    return tuple(found.values())
