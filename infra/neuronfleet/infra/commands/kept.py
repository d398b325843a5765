"""What outlives its stack, and what it costs a month then; what holds data goes by its size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neuronfleet.infra.commands import stack_ids, tariff
from neuronfleet.infra.commands.assembly import SynthesisedStack
from neuronfleet.infra.settings.model import NewCluster, NewNetwork, Settings
from neuronfleet.infra.stacks import naming

_ITEMS = {
    "AWS::KMS::Key": "kms-key",
    "AWS::S3::Bucket": "s3-standard",
    "AWS::ECR::Repository": "ecr-storage",
    "AWS::Logs::LogGroup": "logs-stored",
}
"""What a kept resource is paid by; a type that is not here costs nothing by itself, or unknown."""
_FREE = (
    "AWS::KMS::Alias",
    "AWS::S3::BucketPolicy",
    "AWS::IAM::Role",
    "AWS::IAM::Policy",
    "AWS::Logs::ResourcePolicy",
    "Custom::AWSCDK-EKS-KubernetesResource",
)
_BY_USE = {"AWS::APS::Workspace": "by the samples that it holds, none older than 150 days"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One thing that stays."""

    stack: str
    what: str
    usd_per_month: float | None
    """None: by its size, or unknown."""
    price: str
    """Its price in words."""


def of_settings(settings: Settings) -> Iterator[Kept]:
    """What stacks leave, as far as settings tell."""
    stack, region = stack_ids.data(settings), settings.region
    yield _kept(stack, "KMS key of data", "kms-key", region)
    for bucket in ("weights", "graph store", "access logs"):
        yield _kept(stack, f"bucket of {bucket}", "s3-standard", region)
    for image in naming.images(settings):
        repository = f"repository {naming.repository(settings, image)}"
        yield _kept(stack, repository, "ecr-storage", region)
    metrics = stack_ids.observability(settings)
    yield _kept(metrics, "KMS key of metrics", "kms-key", region)
    price = _BY_USE["AWS::APS::Workspace"]
    yield Kept(stack=metrics, what="metrics", usd_per_month=None, price=price)
    if isinstance(settings.cluster, NewCluster):
        yield _kept(stack_ids.cluster(settings), "control plane logs", "logs-stored", region)
    if isinstance(settings.network, NewNetwork):
        yield _kept(stack_ids.network(settings), "flow logs", "logs-stored", region)


def of_assembly(region: str, assembly: Sequence[SynthesisedStack]) -> Iterator[Kept]:
    """What templates keep, each by its type."""
    for stack in reversed(assembly):
        for resource in stack.kept:
            what = f"{resource.kind.removeprefix('AWS::')} {resource.logical_id}"
            if resource.kind in _FREE:
                yield Kept(stack=stack.id, what=what, usd_per_month=0.0, price="free by itself")
            elif resource.kind in _BY_USE:
                price = _BY_USE[resource.kind]
                yield Kept(stack=stack.id, what=what, usd_per_month=None, price=price)
            else:
                yield _kept(stack.id, what, _ITEMS.get(resource.kind), region)


def _kept(stack: str, what: str, item: str | None, region: str) -> Kept:
    found = None if item is None else tariff.find(item, region)
    if found is None:
        return Kept(stack=stack, what=what, usd_per_month=None, price="unknown")
    monthly = found.usd if found.unit == "month" else None
    price = f"${found.usd:g} a {found.unit}" + ("" if monthly is not None else ", of what it holds")
    return Kept(stack=stack, what=what, usd_per_month=monthly, price=price)
