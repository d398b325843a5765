"""What outlives every other stack: the key, buckets, image repositories."""

from aws_cdk import Environment, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct

from neuronfleet.infra.data.buckets import AccessLogs, StoredBucket
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import DataFacts


class DataStack(Stack):
    """Retained, and protected from `cdk destroy`.

    Graphs are stored under the compiler's version, so that a new SDK never meets an old graph and
    an old one can be removed by its prefix (`aws s3 rm --recursive s3://BUCKET/2.20.9961.0/`).
    """

    facts: DataFacts

    def __init__(self, scope: Construct, id: str, *, settings: Settings, env: Environment) -> None:
        super().__init__(
            scope,
            id,
            env=env,
            description="Key, weights, compiled graphs, images: retained",
            termination_protection=True,
        )
        key = kms.Key(
            self,
            "Key",
            alias=f"alias/{settings.name}",
            description=f"Weights, graphs and images of {settings.name}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        logs = AccessLogs(self, "AccessLogs").bucket
        weights = StoredBucket(self, "Weights", key=key, access_logs=logs, prefix="weights/")
        graphs = StoredBucket(self, "Graphs", key=key, access_logs=logs, prefix="graphs/")
        self.facts = DataFacts(
            key=key,
            weights=weights.bucket,
            graphs=graphs.bucket,
            access_logs=logs,
            repositories={
                image: self._repository(naming.repository(settings, image), image, key)
                for image in naming.images(settings)
            },
        )

    def _repository(self, name: str, image: str, key: kms.IKey) -> ecr.IRepository:
        """Tags are never moved; nothing expires, since what is served is named by digest."""
        return ecr.Repository(
            self,
            f"Images-{image}",
            repository_name=name,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=key,
            removal_policy=RemovalPolicy.RETAIN,
        )
