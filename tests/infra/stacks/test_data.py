import json
from typing import Any

import pytest

from tests.infra.stacks.base import only, properties, resources, template

BUCKET = "AWS::S3::Bucket"
KEPT = (BUCKET, "AWS::KMS::Key", "AWS::ECR::Repository")


@pytest.mark.parametrize("kind", KEPT)
def test_what_holds_data_is_retained_whatever_becomes_of_the_stack(kind: str) -> None:
    for one in resources("Data", kind).values():
        assert (one["DeletionPolicy"], one["UpdateReplacePolicy"]) == ("Retain", "Retain")


def test_no_function_empties_a_bucket_or_a_repository() -> None:
    kinds = {one["Type"] for one in template("Data")["Resources"].values()}

    assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::Lambda"))]


def test_the_key_rotates() -> None:
    assert only("Data", "AWS::KMS::Key")["EnableKeyRotation"] is True


def test_buckets_are_private_versioned_and_encrypted() -> None:
    for bucket in properties("Data", BUCKET):
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        assert bucket["BucketEncryption"]
        owner = bucket["OwnershipControls"]["Rules"]
        assert owner == [{"ObjectOwnership": "BucketOwnerEnforced"}]


def test_weights_and_graphs_are_under_the_deployments_key_and_their_access_is_recorded() -> None:
    logged = [one for one in properties("Data", BUCKET) if "LoggingConfiguration" in one]

    assert len(logged) == 2
    for bucket in logged:
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        assert rule["BucketKeyEnabled"] is True
    prefixes = {one["LoggingConfiguration"]["LogFilePrefix"] for one in logged}
    assert prefixes == {"weights/", "graphs/"}


def denied(policy: dict[str, Any]) -> set[str]:
    return {
        json.dumps(one["Condition"], sort_keys=True)
        for one in policy["PolicyDocument"]["Statement"]
        if one["Effect"] == "Deny"
    }


def test_every_bucket_refuses_what_does_not_come_over_tls_1_2() -> None:
    policies = properties("Data", "AWS::S3::BucketPolicy")

    assert len(policies) == 3
    for policy in policies:
        assert denied(policy) == {
            '{"Bool": {"aws:SecureTransport": "false"}}',
            '{"NumericLessThan": {"s3:TlsVersion": 1.2}}',
        }


def test_overwritten_weights_and_graphs_go_after_a_month_and_current_ones_never() -> None:
    for bucket in properties("Data", BUCKET):
        if "LoggingConfiguration" in bucket:
            (rule,) = bucket["LifecycleConfiguration"]["Rules"]
            assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
            assert "ExpirationInDays" not in rule


def test_each_image_has_an_immutable_scanned_encrypted_repository() -> None:
    found = properties("Data", "AWS::ECR::Repository")

    assert {one["RepositoryName"] for one in found} == {
        f"neuronfleet/{image}"
        for image in ("controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2")
    }
    for one in found:
        assert one["ImageTagMutability"] == "IMMUTABLE"
        assert one["ImageScanningConfiguration"] == {"ScanOnPush": True}
        assert one["EncryptionConfiguration"]["EncryptionType"] == "KMS"
        assert "LifecyclePolicy" not in one


def test_settings_without_images_have_the_four_that_serving_needs() -> None:
    assert len(properties("Data", "AWS::ECR::Repository", "no-images")) == 4
