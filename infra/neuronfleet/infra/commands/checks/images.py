"""Whether the AMI releases that settings pin exist, as EKS publishes them in Parameter Store."""

from collections.abc import Iterator
from functools import partial

from botocore.exceptions import ClientError

from neuronfleet.infra.commands.checks.aws import Aws, asked, code_of
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings.model import NewCluster, Settings


def findings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    """The release of each pool, once each, and that of the system nodes."""
    version = settings.cluster.version
    wanted: dict[tuple[str, str], list[str]] = {}
    for index, pool in enumerate(settings.pools):
        wanted.setdefault(("neuron", pool.ami_release), []).append(f"pools[{index}]")
    if isinstance(settings.cluster, NewCluster):
        release = settings.cluster.system_nodes.ami_release
        if release is not None:
            # 1.35.2-20261105 is the node group's way to say v20261105.
            dated = f"v{release.rpartition('-')[2]}"
            wanted[("standard", dated)] = ["cluster.systemNodes"]
    for (variant, release), paths in wanted.items():
        question = partial(_release, version, variant, release, ", ".join(paths), aws)
        yield from asked("AMI", release, question)


def parameter(version: str, variant: str, release: str) -> str:
    """Where EKS publishes the image of a release (EKS User Guide, retrieve AMI IDs)."""
    name = f"amazon-eks-node-al2023-x86_64-{variant}-{version}-{release}"
    family = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/{variant}"
    return f"{family}/{name}/image_id"


def _release(version: str, variant: str, release: str, paths: str, aws: Aws) -> Iterator[Finding]:
    try:
        found = aws.client("ssm").get_parameter(Name=parameter(version, variant, release))
    except ClientError as wrong:
        if code_of(wrong) != "ParameterNotFound":
            raise
        said = (
            f"of {paths}, is no release of the AL2023 {variant} AMI for {version} here; "
            "the changelog of amazon-eks-ami lists them"
        )
        yield fails("AMI", release, said)
        return
    yield fine("AMI", release, f"{found['Parameter']['Value']}, of {paths}")
