"""Acknowledgement of a wildcard behind a value that is not known while constructs are made.

cdk-nag names the finding by the resource as the template has it, and what a reference to another
stack becomes is only known when the references are made: after that and before rules are checked,
constructs are asked whether they are valid.
"""

import json
import re
from typing import Any

import jsii
from aws_cdk import Stack
from constructs import IConstruct, IValidation

from neuronfleet.infra import nag


def acknowledge_resource(construct: IConstruct, resource: str, *, reason: str) -> None:
    """Acknowledge that policies of this construct name a resource that ends in a wildcard."""
    construct.node.add_validation(_Known(construct, resource, reason))


def shown(resolved: Any) -> str:
    """A resource of a template as cdk-nag writes it."""
    if isinstance(resolved, str):
        return resolved
    if "Fn::Join" in resolved:
        return "".join(shown(part) for part in resolved["Fn::Join"][1])
    if "Ref" in resolved:
        return f"<{resolved['Ref']}>"
    if "Fn::GetAtt" in resolved:
        return f"<{'.'.join(resolved['Fn::GetAtt'])}>"
    if "Fn::Sub" in resolved:
        return re.sub(r"\$\{([^}]+)\}", r"<\1>", resolved["Fn::Sub"])
    return json.dumps(resolved, separators=(",", ":"))


@jsii.implements(IValidation)
class _Known:
    def __init__(self, construct: IConstruct, resource: str, reason: str) -> None:
        self._construct, self._resource, self._reason = construct, resource, reason

    def validate(self) -> list[str]:
        """Nothing is wrong with it; its finding has a name now."""
        resource = shown(Stack.of(self._construct).resolve(self._resource))
        nag.acknowledge(
            self._construct, f"AwsSolutions-IAM5[Resource::{resource}]", reason=self._reason
        )
        return []
