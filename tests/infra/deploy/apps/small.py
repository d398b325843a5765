"""Small apps for the emulator's own tests: no assets, no bootstrap."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aws_cdk as cdk


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One resource of a template, as it stands there."""

    type: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    depends_on: str | None = None


def assemble(
    folder: Path,
    stacks: Mapping[str, Mapping[str, Part]],
    outputs: Mapping[str, Mapping[str, Any]] | None = None,
    region: str = "us-east-2",
) -> Path:
    """Synthesise stacks of raw resources; where the CLI finds the assembly."""
    app = cdk.App(outdir=str(folder), analytics_reporting=False)
    for name, parts in stacks.items():
        stack = cdk.Stack(
            app,
            name,
            env=cdk.Environment(account="123456789012", region=region),
            # Its templates need no bucket and no version parameter of a bootstrapped account.
            synthesizer=cdk.LegacyStackSynthesizer(),
        )
        include(stack, parts)
        for output, value in (outputs or {}).get(name, {}).items():
            cdk.CfnOutput(stack, output, value=value)
    app.synth()
    return folder


def include(stack: cdk.Stack, parts: Mapping[str, Part]) -> None:
    """Add raw resources under their own logical IDs."""
    made = {
        logical_id: cdk.CfnResource(
            stack, logical_id, type=part.type, properties=dict(part.properties)
        )
        for logical_id, part in parts.items()
    }
    for logical_id, part in parts.items():
        if part.depends_on:
            made[logical_id].add_depends_on(made[part.depends_on])
