"""Custom resources: recorded, their properties checked as the handlers of CDK read them."""

import json
from typing import Any

from tests.infra.deploy.emulator.registry import Made, Refused, Request, creates

HELM_REQUIRED = frozenset({"ServiceToken", "ClusterName", "Release"})
HELM_KNOWN = HELM_REQUIRED | frozenset(
    {
        "Atomic",
        "Chart",
        "ChartAssetURL",
        "CreateNamespace",
        "Namespace",
        "Repository",
        "SkipCrds",
        "Timeout",
        "Values",
        "Version",
        "Wait",
    }
)
MANIFEST_REQUIRED = frozenset({"ServiceToken", "ClusterName", "Manifest"})
MANIFEST_KNOWN = MANIFEST_REQUIRED | frozenset(
    {"Overwrite", "PruneLabel", "SkipValidation", "Timeout"}
)


def _check(request: Request, required: frozenset[str], known: frozenset[str]) -> None:
    given = frozenset(request.properties)
    if missing := required - given:
        raise Refused(f"properties missing: {', '.join(sorted(missing))}")
    if unknown := given - known - {"RoleArn", "ServiceTimeout"}:
        raise Refused(f"properties that the handler does not read: {', '.join(sorted(unknown))}")
    name = request.properties["ClusterName"]
    request.client("eks").describe_cluster(name=name)
    _handler(request)


def _handler(request: Request) -> None:
    """The service token has to name a function of this account."""
    name = request.properties["ServiceToken"].rsplit(":", 1)[1]
    request.client("lambda").get_function(FunctionName=name)


@creates("Custom::AWSCDK-EKS-HelmChart")
def helm_chart(request: Request) -> Made:
    """A release, recorded: no Helm runs here."""
    _check(request, HELM_REQUIRED, HELM_KNOWN)
    json.loads(request.properties.get("Values", "{}"))
    if asset := request.properties.get("ChartAssetURL"):
        bucket, key = asset.removeprefix("s3://").split("/", 1)
        request.client("s3").head_object(Bucket=bucket, Key=key)
    elif not (request.properties.get("Chart") and request.properties.get("Version")):
        raise Refused("a chart that is no asset needs a name and a version")
    return Made(ref=request.properties["Release"])


@creates("Custom::AWSCDK-EKS-KubernetesResource")
def manifest(request: Request) -> Made:
    """Kubernetes objects, recorded: no API server is asked here."""
    _check(request, MANIFEST_REQUIRED, MANIFEST_KNOWN)
    for item in json.loads(request.properties["Manifest"]):
        _object(item)
    return Made(ref=f"{request.stack}/{request.logical_id}")


def _object(item: dict[str, Any]) -> None:
    named = item.get("metadata", {}).get("name")
    if not (item.get("apiVersion") and item.get("kind") and named):
        raise Refused(f"an object of a manifest needs apiVersion, kind and a name: {item}")


@creates("Custom::VpcRestrictDefaultSG")
def restrict_default_group(request: Request) -> Made:
    """CDK's emptying of a VPC's default security group, done as its handler does."""
    group = request.properties["DefaultSecurityGroupId"]
    request.client("ec2").describe_security_groups(GroupIds=[group])
    return Made(ref=f"{request.stack}-default-group")
