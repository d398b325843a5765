"""Names that other places rely on, and the tags of everything."""

from collections.abc import Mapping

from neuronfleet.infra.settings.model import ExistingCluster, Pool, Settings

DEPLOYMENT_TAG = "neuronfleet:deployment"
"""What `neuronfleet infra destroy-plan` finds what is left by."""
SOURCE_KEY = "sources/neuronfleet.zip"
"""Where the bundle that images are built from lies in the weights bucket."""
IMAGES = ("controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2")
"""Where the settings name none."""


def cluster(settings: Settings) -> str:
    """Name of the EKS cluster."""
    if isinstance(settings.cluster, ExistingCluster):
        return settings.cluster.name
    return settings.name


def repository(settings: Settings, image: str) -> str:
    """ECR repository of an image."""
    return f"{settings.name}/{image}"


def digest_parameter(settings: Settings, image: str) -> str:
    """SSM parameter that the last build wrote an image's digest to."""
    return f"/{settings.name}/images/{image}/digest"


def undelivered(settings: Settings, pool: Pool) -> str:
    """Queue of what a pool's schedules and end notice could not hand over."""
    return f"{settings.name}-{pool.name}-undelivered"


def images(settings: Settings) -> tuple[str, ...]:
    """Images that have a repository and a build."""
    return tuple(image.name for image in settings.images) or IMAGES


def tags(settings: Settings) -> Mapping[str, str]:
    """Of every resource that takes tags; the settings' own cannot replace the deployment's."""
    return {**settings.tags, DEPLOYMENT_TAG: settings.name}
