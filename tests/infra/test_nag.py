import json
import tempfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

from neuronfleet.infra import nag
from neuronfleet.infra.nag_rules.open_cluster import findings

LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
ROLE = "arn:aws:iam::111122223333:role/cluster"
SUBNET = "subnet-0123456789abcdef0"


def template(**changes: Any) -> dict[str, Any]:
    """A cluster as it should be, but for the changes; None takes a property away."""
    usual: dict[str, Any] = {
        "ResourcesVpcConfig": {"EndpointPublicAccess": False, "EndpointPrivateAccess": True},
        "Logging": {"ClusterLogging": {"EnabledTypes": [{"Type": one} for one in LOGS]}},
        "EncryptionConfig": [{"Provider": {"KeyArn": {"Ref": "Key"}}, "Resources": ["secrets"]}],
    }
    properties = {key: one for key, one in (usual | changes).items() if one is not None}
    return {"Resources": {"C": {"Type": "AWS::EKS::Cluster", "Properties": properties}}}


def rules(found: dict[str, Any]) -> list[str]:
    return [one.rule for one in findings(found)]


def reach(*cidrs: Any) -> dict[str, Any]:
    return {"EndpointPublicAccess": True, "PublicAccessCidrs": list(cidrs)}


def test_a_private_logged_encrypted_cluster_is_right() -> None:
    assert rules(template()) == []


def test_a_public_endpoint_for_named_addresses_is_right() -> None:
    assert rules(template(ResourcesVpcConfig=reach("203.0.113.0/24"))) == []


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"EndpointPublicAccess": True},
        reach(),
        reach("0.0.0.0/0"),
        reach("::/0"),
        reach("1.2.3.4/0"),
        reach("203.0.113.0/24", "0.0.0.0/0"),
        reach({"Ref": "Unknown"}),
    ],
)
def test_an_endpoint_that_anyone_reaches_is_found(config: dict[str, Any] | None) -> None:
    assert rules(template(ResourcesVpcConfig=config)) == ["NeuronFleet-EKS1"]


@pytest.mark.parametrize("missing", LOGS)
def test_each_missing_log_is_found_and_named(missing: str) -> None:
    kept = [{"Type": one} for one in LOGS if one != missing]
    (found,) = findings(template(Logging={"ClusterLogging": {"EnabledTypes": kept}}))

    assert found.rule == "NeuronFleet-EKS2"
    assert missing in found.text


@pytest.mark.parametrize("config", [None, [], [{"Resources": ["secrets"], "Provider": {}}]])
def test_secrets_without_a_key_are_found(config: list[Any] | None) -> None:
    assert rules(template(EncryptionConfig=config)) == ["NeuronFleet-EKS3"]


def open_cluster(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Open")
    eks.CfnCluster(
        stack,
        "Cluster",
        role_arn=ROLE,
        resources_vpc_config=eks.CfnCluster.ResourcesVpcConfigProperty(
            subnet_ids=[SUBNET], endpoint_public_access=True, public_access_cidrs=["0.0.0.0/0"]
        ),
    )


def reported(app: cdk.App, folder: str) -> list[str]:
    """Names of the rules that a synthesis ended with."""
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.loads((Path(folder) / "validation-report.json").read_text())
    return sorted(
        violation["ruleName"]
        for part in report["pluginReports"]
        if part["conclusion"] == "failure"
        for violation in part["violations"]
    )


def test_an_open_cluster_ends_the_synthesis_by_our_rules_and_cdk_nag_does_not_see_it() -> None:
    """If AwsSolutions reports one day, the project's own rules can go."""
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, analytics_reporting=False)
        open_cluster(app)
        nag.apply(app)

        assert reported(app, folder) == [
            "NeuronFleet-EKS1", "NeuronFleet-EKS2", "NeuronFleet-EKS3",
        ]  # fmt: skip


def test_cdk_nag_alone_passes_an_open_cluster() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, analytics_reporting=False)
        open_cluster(app)
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))

        app.synth()


def test_an_acknowledgement_excuses_its_finding_and_no_other() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = cdk.App(outdir=folder, analytics_reporting=False)
        bucket = s3.Bucket(cdk.Stack(app, "Stack"), "Bucket")
        nag.acknowledge(bucket, "AwsSolutions-S1", reason="A test.")
        nag.apply(app)

        assert reported(app, folder) == ["AwsSolutions-S10"]
