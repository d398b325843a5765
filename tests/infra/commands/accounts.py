"""Accounts to ask: answers set down call by call, or moto's."""

from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import NoCredentialsError
from botocore.stub import Stubber

from neuronfleet.infra.settings import parse
from neuronfleet.infra.settings.model import Settings

REGION = "us-east-2"
NOW = datetime(2027, 2, 1, tzinfo=UTC)
TEXT = """\
apiVersion: neuronfleet.dev/v1alpha1
kind: InfraSettings
name: fleet
region: us-east-2
zones: [use2-az1, use2-az3]
cluster:
  admins: [role/ClusterAdmin]
pools:
  - name: inf2
    owner: karpenter
    instanceType: inf2.xlarge
    capacity: on-demand
    zones: [use2-az1, use2-az3]
    most: 8
    sdk: "2.28"
    amiRelease: v20260403
  - name: block
    owner: node-group
    instanceType: trn2.48xlarge
    capacity: capacity-block
    zones: [use2-az1]
    most: 1
    sdk: "2.31"
    amiRelease: v20260714
    block:
      id: cr-0123456789abcdef0
      instanceType: trn2.48xlarge
      zone: use2-az1
      count: 1
      startsAt: 2027-03-01T11:30:00Z
      endsAt: 2027-03-08T11:30:00Z
"""


def settings(*changes: tuple[str, str]) -> Settings:
    """The settings above, with texts in the place of others."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse.parse(text, "infra.yaml")


class Answers:
    """An account that gives the answers set down for it, in their order, and no other."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._stubs: dict[str, Stubber] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            client = boto3.client(
                service,
                region_name=REGION,
                aws_access_key_id="testing",
                aws_secret_access_key="testing",
            )
            self._clients[service] = client
            self._stubs[service] = Stubber(client)
            self._stubs[service].activate()
        return self._clients[service]

    def answer(
        self, service: str, operation: str, answer: dict[str, Any], asked: dict[str, Any] | None
    ) -> None:
        """Set down an answer; `asked` is what must be asked for it, None: anything."""
        self.client(service)
        self._stubs[service].add_response(operation, answer, asked)

    def refuse(self, service: str, operation: str, code: str) -> None:
        """Set down an error."""
        self.client(service)
        self._stubs[service].add_client_error(operation, code, "as set down")

    def all_asked(self) -> None:
        """Fail where an answer was never asked for."""
        for stub in self._stubs.values():
            stub.assert_no_pending_responses()


class Nobody:
    """An account without credentials."""

    def client(self, service: str) -> Any:
        raise NoCredentialsError


class Moto:
    """The account that moto pretends, inside `moto.mock_aws`."""

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION)
