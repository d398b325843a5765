"""cfn-lint has nothing to say of any template of the examples but what is listed here."""

import re
from dataclasses import dataclass
from functools import cache

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.infra import examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A finding that is wrong, or about what is not ours."""

    rule: str
    type: str
    """Of the resource that it is about."""
    path: str
    """Pattern of the whole path in the template."""
    text: str
    """What its message begins with, or contains."""
    reason: str


IGNORED = (
    Ignored(
        rule="E1022",
        type="AWS::CodeBuild::Project",
        path=r"Resources/Image\w+/Properties/Environment/EnvironmentVariables/\d/Value/"
        r"Fn::Join/1/\d/Fn::Select/1/Fn::Split/1",
        text="{'Fn::GetStackOutput': {'StackName': 'neuronfleet-Data'",
        reason="Fn::Split takes what another stack's output gives; cfn-lint does not know it yet",
    ),
    Ignored(
        rule="E3628",
        type="AWS::EC2::LaunchTemplate",
        path="Resources/Template/Properties/LaunchTemplateData/InstanceType",
        text="'trn2.3xlarge' is not one of",
        reason="EC2 offers it there (DescribeInstanceTypeOfferings); cfn-lint's list is older",
    ),
    Ignored(
        rule="W3005",
        type="AWS::Lambda::Function",
        path=r"Resources/Kubectl\w+/DependsOn/\d",
        text="dependency already enforced by a 'GetAtt'",
        reason="CDK's kubectl provider writes it; it says the same twice and changes nothing",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One of cfn-lint's."""

    stack: str
    rule: str
    type: str
    path: str
    text: str


@cache
def findings(name: str) -> tuple[Finding, ...]:
    """Everything that cfn-lint says of an example, warnings too."""
    found = []
    region = examples.settings(name).region
    folder = examples.assembly(name)
    for stack, template in examples.templates(folder).items():
        text = (folder / f"{stack}.template.json").read_text()
        for match in lint(text, config=ManualArgs(regions=[region])):
            path = list(match.path or ())
            resource = template["Resources"].get(path[1], {}) if len(path) > 1 else {}
            found.append(
                Finding(
                    stack=stack,
                    rule=match.rule.id,
                    type=resource.get("Type", ""),
                    path="/".join(map(str, path)),
                    text=match.message,
                )
            )
    return tuple(found)


def excuses(ignored: Ignored, finding: Finding) -> bool:
    return (
        (ignored.rule, ignored.type) == (finding.rule, finding.type)
        and re.fullmatch(ignored.path, finding.path) is not None
        and ignored.text in finding.text
    )


@pytest.mark.parametrize("name", examples.NAMES)
def test_there_is_nothing_to_say(name: str) -> None:
    left = [
        finding
        for finding in findings(name)
        if not any(excuses(ignored, finding) for ignored in IGNORED)
    ]

    assert left == []


def test_nothing_is_ignored_that_is_no_longer_said() -> None:
    said = [finding for name in examples.NAMES for finding in findings(name)]
    stale = [one for one in IGNORED if not any(excuses(one, finding) for finding in said)]

    assert stale == []
