"""Whether EKS runs the version asked for, and whether a cluster that stands is as settings say."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from neuronfleet.infra.commands.checks.aws import Aws, asked, code_of
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings.model import ExistingCluster, ExistingNetwork, Settings


def findings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    """The version, and the existing cluster if there is one."""
    version = settings.cluster.version
    yield from asked("EKS version", version, partial(_version, version, aws))
    cluster = settings.cluster
    if isinstance(cluster, ExistingCluster):
        yield from asked("cluster", cluster.name, partial(_existing, settings, cluster, aws))


def _version(version: str, aws: Aws) -> Iterator[Finding]:
    found = aws.client("eks").describe_cluster_versions(clusterVersions=[version])
    rows = found.get("clusterVersions", ())
    if not rows:
        yield fails("EKS version", version, "is unknown to EKS here; give another cluster.version")
        return
    status = rows[0].get("versionStatus") or rows[0].get("status", "")
    support = str(status).replace("_", " ").lower()
    if support == "unsupported":
        yield fails("EKS version", version, "is no longer supported; give another cluster.version")
        return
    ends = rows[0].get("endOfStandardSupportDate")
    until = f" until {ends:%Y-%m-%d}" if ends and support == "standard support" else ""
    costs = ": $0.60 an hour, six times as much" if support == "extended support" else ""
    yield fine("EKS version", version, f"in {support}{until}{costs}")


def _existing(settings: Settings, cluster: ExistingCluster, aws: Aws) -> Iterator[Finding]:
    try:
        found = aws.client("eks").describe_cluster(name=cluster.name)["cluster"]
    except ClientError as wrong:
        if code_of(wrong) != "ResourceNotFoundException":
            raise
        said = f"is no cluster of {settings.region}; must be the name of one that stands"
        yield fails("cluster", cluster.name, said)
        return
    wrong_fields = list(_differences(settings, cluster, found))
    for path, given, real in wrong_fields:
        yield fails("cluster", path, f"= {given}, must be {real}, as describe-cluster says")
    if not wrong_fields:
        yield fine("cluster", cluster.name, f"{found['version']}, {found.get('status', '')}")


def _differences(
    settings: Settings, cluster: ExistingCluster, found: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    network = found.get("resourcesVpcConfig", {})
    pairs = [
        ("version", cluster.version, found.get("version")),
        ("endpoint", cluster.endpoint, found.get("endpoint")),
        (
            "certificateAuthority",
            cluster.certificate_authority,
            found.get("certificateAuthority", {}).get("data"),
        ),
        ("securityGroupId", cluster.security_group_id, network.get("clusterSecurityGroupId")),
    ]
    for name, given, real in pairs:
        if real is not None and given != real:
            yield f"cluster.existing.{name}", _short(given), _short(str(real))
    mode = found.get("accessConfig", {}).get("authenticationMode")
    if mode == "CONFIG_MAP":
        yield "cluster.existing.name", "a cluster without access entries", "API_AND_CONFIG_MAP"
    vpc = network.get("vpcId")
    if isinstance(settings.network, ExistingNetwork) and vpc not in (None, settings.network.vpc_id):
        yield "network.existing.vpcId", settings.network.vpc_id, f"{vpc}, where the cluster stands"


def _short(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:32]}... ({len(value)} characters)"
