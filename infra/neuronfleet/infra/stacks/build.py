"""Builds of the images, in the account that serves them."""

from aws_cdk import CfnOutput, Environment, Stack
from constructs import Construct

from neuronfleet.infra.images.project import ImageProject
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks import naming
from neuronfleet.infra.stacks.facts import DataFacts


class BuildStack(Stack):
    """One project an image. They read one bundle, which the output `Upload` puts in place."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        env: Environment,
        data: DataFacts,
    ) -> None:
        super().__init__(scope, id, env=env, description="CodeBuild, one project an image")
        CfnOutput(
            self,
            "Upload",
            value="git archive --format zip HEAD | "
            f"aws s3 cp - s3://{data.weights.bucket_name}/{naming.SOURCE_KEY}",
            description="Puts the sources that the builds read in place",
        )
        for image, repository in data.repositories.items():
            project = ImageProject(
                self,
                f"Image-{image}",
                name=f"{settings.name}-{image}",
                image=image,
                repository=repository,
                source=data.weights,
                source_key=naming.SOURCE_KEY,
                key=data.key,
                parameter=naming.digest_parameter(settings, image),
                log_days=settings.observability.log_days,
            )
            CfnOutput(
                self,
                f"Start-{image}",
                value=f"aws codebuild start-build --project-name {project.name} "
                f"--region {settings.region}",
                description=f"Builds {image}; its digest then stands in "
                f"{naming.digest_parameter(settings, image)}",
            )
