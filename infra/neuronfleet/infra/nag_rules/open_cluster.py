"""EKS clusters that anyone may reach, or that keep no records or secrets.

cdk-nag's EKS1 and EKS2 know the older construct's class alone and pass over aws_eks_v2's clusters.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CLUSTER = "AWS::EKS::Cluster"
LOGS = frozenset({"api", "audit", "authenticator", "controllerManager", "scheduler"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong with one cluster."""

    rule: str
    logical_id: str
    location: str
    """Property, from the resource on."""
    text: str
    fix: str


def findings(template: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with the clusters of a template."""
    for name, resource in template.get("Resources", {}).items():
        if resource["Type"] == CLUSTER:
            properties = resource.get("Properties", {})
            yield from _reach(name, properties)
            yield from _logs(name, properties)
            yield from _secrets(name, properties)


def _reach(name: str, properties: Mapping[str, Any]) -> Iterator[Finding]:
    """EKS's defaults are a public endpoint and everyone."""
    access = properties.get("ResourcesVpcConfig", {})
    if access.get("EndpointPublicAccess", True) in (False, "false"):
        return
    allowed = access.get("PublicAccessCidrs") or ["0.0.0.0/0"]
    everyone = [one for one in allowed if not isinstance(one, str) or _everyone(one)]
    if everyone:
        yield Finding(
            rule="NeuronFleet-EKS1",
            logical_id=name,
            location="Properties.ResourcesVpcConfig.PublicAccessCidrs",
            text=f"The Kubernetes API is open to {everyone[0]}",
            fix="Keep the endpoint private, or name the addresses: cluster.publicCidrs",
        )


def _everyone(cidr: str) -> bool:
    """Whether a block leaves nobody out; /0 of any address is everyone."""
    return ipaddress.ip_network(cidr, strict=False).prefixlen == 0


def _logs(name: str, properties: Mapping[str, Any]) -> Iterator[Finding]:
    kept = properties.get("Logging", {}).get("ClusterLogging", {}).get("EnabledTypes", [])
    missing = sorted(LOGS - {one["Type"] for one in kept})
    if missing:
        yield Finding(
            rule="NeuronFleet-EKS2",
            logical_id=name,
            location="Properties.Logging",
            text=f"The control plane does not log {', '.join(missing)}",
            fix="Enable all five log types",
        )


def _secrets(name: str, properties: Mapping[str, Any]) -> Iterator[Finding]:
    encrypted = [
        one
        for one in properties.get("EncryptionConfig", [])
        if "secrets" in one.get("Resources", []) and one.get("Provider", {}).get("KeyArn")
    ]
    if not encrypted:
        yield Finding(
            rule="NeuronFleet-EKS3",
            logical_id=name,
            location="Properties.EncryptionConfig",
            text="Secrets of the cluster are not encrypted by a key of the account",
            fix="Give the cluster a KMS key for secrets",
        )
