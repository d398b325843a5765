import sys
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from neuronfleet.infra.functions import default_group

GROUP = "sg-0123456789abcdef0"
RULE = {"IpProtocol": "-1"}


class Ec2:
    """Keeps what was revoked."""

    def __init__(self, **rules: list[dict[str, str]]) -> None:
        usual: dict[str, list[dict[str, str]]] = {"IpPermissions": [], "IpPermissionsEgress": []}
        self.rules = usual | rules
        self.revoked: list[tuple[str, Any]] = []

    def describe_security_groups(self, GroupIds: list[str]) -> dict[str, Any]:
        return {"SecurityGroups": [{"GroupId": GroupIds[0], **self.rules}]}

    def revoke_security_group_ingress(self, **given: Any) -> None:
        self.revoked.append(("ingress", given))

    def revoke_security_group_egress(self, **given: Any) -> None:
        self.revoked.append(("egress", given))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What CloudFormation was told."""
    told: list[str] = []
    module = SimpleNamespace(
        SUCCESS="SUCCESS",
        FAILED="FAILED",
        send=lambda event, context, status, data, id, reason: told.append(status),
    )
    monkeypatch.setitem(sys.modules, "cfnresponse", module)
    return told


def event(kind: str) -> dict[str, Any]:
    return {"RequestType": kind, "ResourceProperties": {"DefaultSecurityGroupId": GROUP}}


def test_every_rule_that_is_there_is_revoked() -> None:
    ec2 = Ec2(IpPermissions=[RULE], IpPermissionsEgress=[RULE])

    default_group.empty(ec2, GROUP)

    assert ec2.revoked == [
        ("ingress", {"GroupId": GROUP, "IpPermissions": [RULE]}),
        ("egress", {"GroupId": GROUP, "IpPermissions": [RULE]}),
    ]


def test_an_empty_group_is_left_alone() -> None:
    ec2 = Ec2()

    default_group.empty(ec2, GROUP)

    assert ec2.revoked == []


def test_cloudformation_is_told_of_success_and_of_failure(
    answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "client", lambda service: Ec2(IpPermissions=[RULE]))
    default_group.handler(event("Create"), None)
    monkeypatch.setattr(boto3, "client", lambda service: None)
    default_group.handler(event("Update"), None)

    assert answers == ["SUCCESS", "FAILED"]


def test_a_vpc_that_goes_takes_its_group_along(
    answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "client", lambda service: None)
    default_group.handler(event("Delete"), None)

    assert answers == ["SUCCESS"]
