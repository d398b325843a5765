"""Buckets: private, over TLS only, versioned, and every access recorded."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from neuronfleet.infra import nag

_LOG_DAYS = 400
"""A year's audit looks back over more than twelve months."""
_OLD_VERSION_DAYS = 30
_UPLOAD_DAYS = 3
_TLS = 1.2


class AccessLogs(Construct):
    """Who read what from the other buckets."""

    bucket: s3.Bucket

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            # S3 writes access logs to buckets under its own keys alone.
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(_LOG_DAYS),
                    noncurrent_version_expiration=Duration.days(_OLD_VERSION_DAYS),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )
        _keep_policy(self.bucket)
        nag.acknowledge(
            self.bucket,
            "AwsSolutions-S1",
            reason="Access logs of the access logs' own bucket would never end.",
        )


class StoredBucket(Construct):
    """Weights or graphs; what was overwritten can be had back for 30 days."""

    bucket: s3.Bucket

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: kms.IKey,
        access_logs: s3.IBucket,
        prefix: str,
    ) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            # One call to KMS a minute, not one an object: a model is thousands of them.
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            versioned=True,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix=prefix,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=Duration.days(_OLD_VERSION_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(_UPLOAD_DAYS),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )
        _keep_policy(self.bucket)


def _keep_policy(bucket: s3.Bucket) -> None:
    """A bucket that outlives its stack is still reached over TLS alone."""
    if bucket.policy is not None:
        bucket.policy.apply_removal_policy(RemovalPolicy.RETAIN)
