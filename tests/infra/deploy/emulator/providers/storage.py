"""S3, ECR and KMS, with the properties that stock moto's models drop."""

import json
from typing import Any

from moto.s3.models import s3_backends

from tests.infra.deploy.emulator.registry import (
    Made,
    Request,
    creates,
    lower_keys,
)

BOOTSTRAP = "cdk-"
"""Prefix of the bucket that the CDK CLI writes to."""


def _encryption(properties: Any) -> dict[str, Any]:
    rules = []
    for rule in properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]:
        default = rule["ServerSideEncryptionByDefault"]
        kept = {"SSEAlgorithm": default["SSEAlgorithm"]}
        if "KMSMasterKeyID" in default:
            kept["KMSMasterKeyID"] = default["KMSMasterKeyID"]
        rules.append(
            {
                "ApplyServerSideEncryptionByDefault": kept,
                "BucketKeyEnabled": rule.get("BucketKeyEnabled", False),
            }
        )
    return {"Rules": rules}


def _configure(s3: Any, name: str, properties: Any) -> None:
    if block := properties.get("PublicAccessBlockConfiguration"):
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
    if "BucketEncryption" in properties:
        s3.put_bucket_encryption(
            Bucket=name, ServerSideEncryptionConfiguration=_encryption(properties)
        )
    if versioning := properties.get("VersioningConfiguration"):
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    if controls := properties.get("OwnershipControls"):
        s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=controls)


@creates("AWS::S3::Bucket")
def bucket(request: Request) -> Made:
    """A bucket with access block, encryption, versions, ownership and logging."""
    name = request.name("BucketName").lower()
    s3 = request.client("s3")
    location = {} if request.region == "us-east-1" else {"LocationConstraint": request.region}
    configuration = {"CreateBucketConfiguration": location} if location else {}
    s3.create_bucket(Bucket=name, **configuration)
    _configure(s3, name, request.properties)
    if logging := request.properties.get("LoggingConfiguration"):
        # Not by the API: moto wants the target's policy first, and CloudFormation makes it after.
        backend = s3_backends[request.account]["aws"]
        target = logging.get("DestinationBucketName", name)
        s3.head_bucket(Bucket=target)
        backend.buckets[name].logging = {
            "TargetBucket": target,
            "TargetPrefix": logging.get("LogFilePrefix", ""),
        }
    return Made(
        ref=name,
        attributes={
            "Arn": f"arn:aws:s3:::{name}",
            "DomainName": f"{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{name}.s3.{request.region}.amazonaws.com",
        },
    )


@creates("AWS::S3::BucketPolicy")
def bucket_policy(request: Request) -> Made:
    """A bucket's policy, but for the CLI's own bucket.

    Moto obeys a Deny and overlooks its Condition: TLS-only would then refuse every upload.
    """
    name = request.properties["Bucket"]
    s3 = request.client("s3")
    s3.head_bucket(Bucket=name)
    if not name.startswith(BOOTSTRAP):
        s3.put_bucket_policy(Bucket=name, Policy=json.dumps(request.properties["PolicyDocument"]))
    return Made(ref=name)


def _repository_parameters(properties: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if "ImageTagMutability" in properties:
        parameters["imageTagMutability"] = properties["ImageTagMutability"]
    if scan := properties.get("ImageScanningConfiguration"):
        parameters["imageScanningConfiguration"] = lower_keys(scan)
    if encryption := properties.get("EncryptionConfiguration"):
        parameters["encryptionConfiguration"] = lower_keys(encryption)
    return parameters


@creates("AWS::ECR::Repository")
def repository(request: Request) -> Made:
    """A repository; its generated name is lower-case, as AWS's."""
    name = request.name("RepositoryName").lower()
    ecr = request.client("ecr")
    made = ecr.create_repository(
        repositoryName=name,
        tags=request.properties.get("Tags", []),
        **_repository_parameters(request.properties),
    )["repository"]
    if lifecycle := request.properties.get("LifecyclePolicy"):
        ecr.put_lifecycle_policy(
            repositoryName=name, lifecyclePolicyText=lifecycle["LifecyclePolicyText"]
        )
    return Made(
        ref=name,
        attributes={"Arn": made["repositoryArn"], "RepositoryUri": made["repositoryUri"]},
    )


@creates("AWS::KMS::Key")
def key(request: Request) -> Made:
    """A key with its policy, its rotation and its tags."""
    properties = request.properties
    kms = request.client("kms")
    made = kms.create_key(
        Description=properties.get("Description", ""),
        Policy=json.dumps(properties["KeyPolicy"]),
        KeySpec=properties.get("KeySpec", "SYMMETRIC_DEFAULT"),
        KeyUsage=properties.get("KeyUsage", "ENCRYPT_DECRYPT"),
        Tags=[{"TagKey": t["Key"], "TagValue": t["Value"]} for t in properties.get("Tags", [])],
    )["KeyMetadata"]
    if properties.get("EnableKeyRotation"):
        kms.enable_key_rotation(KeyId=made["KeyId"])
    return Made(ref=made["KeyId"], attributes={"Arn": made["Arn"], "KeyId": made["KeyId"]})


@creates("AWS::KMS::Alias")
def alias(request: Request) -> Made:
    """An alias of a key that exists."""
    name = request.properties["AliasName"]
    target = request.properties["TargetKeyId"]
    request.client("kms").create_alias(AliasName=name, TargetKeyId=target)
    return Made(ref=name)
