"""Findings that are right to have, each with the reason why, and the project's own rules."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import (
    Acknowledgment,
    App,
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
    Validations,
)
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from neuronfleet.infra.nag_rules.open_cluster import Finding, findings


def acknowledge(construct: IConstruct, *ids: str, reason: str) -> None:
    """Excuse findings on a construct and what is under it.

    Args:
        construct: What the findings are about; as close to it as can be.
        ids: `RuleId[Finding]` as cdk-nag prints it, and `RuleId` of rules without findings.
        reason: Why it is right here.
    """
    Validations.of(construct).acknowledge(*(Acknowledgment(id=one, reason=reason) for one in ids))


def apply(app: App) -> None:
    """Judge every template at synthesis; one finding without acknowledgement ends it."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), OwnRules())


@jsii.implements(IPolicyValidationPlugin)
class OwnRules:
    """What cdk-nag does not see, judged on the templates."""

    @property
    def name(self) -> str:
        """As reports call it."""
        return "NeuronFleet"

    @property
    def version(self) -> str:
        """Of the rules."""
        return "1"

    @property
    def rule_ids(self) -> list[str]:
        """Every rule."""
        return ["NeuronFleet-EKS1", "NeuronFleet-EKS2", "NeuronFleet-EKS3"]

    def validate(self, context: IPolicyValidationContext) -> PolicyValidationPluginReport:
        """Judge the templates of an assembly."""
        violations = [
            violation
            for path in context.template_paths
            for violation in _violations(path, json.loads(Path(path).read_text(encoding="utf-8")))
        ]
        return PolicyValidationPluginReport(success=not violations, violations=violations)


def _violations(path: str, template: Mapping[str, Any]) -> Iterator[PolicyViolation]:
    for found in findings(template):
        yield _violation(path, found)


def _violation(path: str, found: Finding) -> PolicyViolation:
    where = PolicyViolatingResource(
        resource_logical_id=found.logical_id, template_path=path, locations=[found.location]
    )
    return PolicyViolation(
        rule_name=found.rule, description=found.text, fix=found.fix, violating_resources=[where]
    )
