"""Providers: what creates a resource of a type, and what it hands back."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from tests.infra.deploy.emulator import schema


class Refused(Exception):
    """A resource that AWS would not create, or that the emulator does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One resource to create, its properties resolved and checked."""

    type: str
    logical_id: str
    stack: str
    properties: Mapping[str, Any]
    account: str
    region: str
    endpoint: str
    """Of this very server: providers create through its API, with botocore's checks."""

    def client(self, service: str) -> Any:
        """A boto3 client of this server."""
        return _client(service, self.region, self.endpoint)

    def name(self, of: str = "Name", *, separator: str = "-") -> str:
        """The name that the template gives, or one as CloudFormation makes it up."""
        if given := self.properties.get(of):
            return str(given)
        suffix = hashlib.sha256(f"{self.stack}/{self.logical_id}".encode()).hexdigest()[:12]
        room = schema.longest_name(self.region, self.type, of) - len(suffix) - 1
        return f"{self.stack}{separator}{self.logical_id}"[:room] + separator + suffix

    def arn(self, service: str, resource: str) -> str:
        """An ARN in this account and region."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What Ref and Fn::GetAtt give of a resource."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


Provider = Callable[[Request], Made]
PROVIDERS: dict[str, Provider] = {}


def creates(*types: str) -> Callable[[Provider], Provider]:
    """Register a provider for types."""

    def register(provider: Provider) -> Provider:
        PROVIDERS.update(dict.fromkeys(types, provider))
        return provider

    return register


@cache
def _client(service: str, region: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id="emulated",
        aws_secret_access_key="emulated",
    )


def lower_keys(value: Any) -> Any:
    """Properties as the API of EKS, CodeBuild and ECR spells them: with a small first letter."""
    if isinstance(value, Mapping):
        return {key[0].lower() + key[1:]: lower_keys(item) for key, item in value.items()}
    return [lower_keys(item) for item in value] if isinstance(value, list) else value


def tags_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """A resource's tags as a mapping, however its type writes them."""
    tags = properties.get("Tags") or {}
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


class Ledger:
    """Every resource that was created, a JSON line each, for tests to read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, request: Request, made: Made) -> None:
        """Append one."""
        entry = {
            "stack": request.stack,
            "logical_id": request.logical_id,
            "type": request.type,
            "ref": made.ref,
            "properties": request.properties,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(entry, default=str) + "\n")
