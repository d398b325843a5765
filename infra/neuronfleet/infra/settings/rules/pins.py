"""Versions: SDK on its chip, AMI under its SDK, Kubernetes of cluster and system nodes."""

from collections.abc import Iterator

from neuronfleet.infra.settings import versions
from neuronfleet.infra.settings.model import NewCluster, Pool, Settings
from neuronfleet.serving.api import hardware
from neuronfleet.serving.api.problems import Problem


def problems(settings: Settings) -> Iterator[Problem]:
    """Versions that are not known to run together."""
    for index, pool in enumerate(settings.pools):
        yield from _of_pool(pool, f"pools[{index}]")
    cluster = settings.cluster
    new = isinstance(cluster, NewCluster)
    path = "cluster.version" if new else "cluster.existing.version"
    if cluster.version not in versions.KUBERNETES:
        allowed = f"must be one of {', '.join(versions.KUBERNETES)}"
        yield Problem(path=path, value=cluster.version, allowed=allowed)
    elif isinstance(cluster, NewCluster):
        release = cluster.system_nodes.ami_release
        if release is not None and not release.startswith(f"{cluster.version}."):
            allowed = f"must be a release of cluster.version, {cluster.version}.x-DATE"
            yield Problem(path="cluster.systemNodes.amiRelease", value=release, allowed=allowed)


def _of_pool(pool: Pool, path: str) -> Iterator[Problem]:
    """An SDK that the chip does not run is wrong with every AMI, so it alone is told."""
    if pool.instance_type not in hardware.catalog():
        return
    clash = versions.sdk_clash(pool.instance_type, pool.sdk)
    if clash:
        yield Problem(path=f"{path}.sdk", value=pool.sdk, allowed=clash)
    elif not pool.ami_reason and not versions.ami_known(
        pool.instance_type, pool.sdk, pool.ami_release
    ):
        yield Problem(path=f"{path}.amiRelease", value=pool.ami_release, allowed=_remedy(pool))


def _remedy(pool: Pool) -> str:
    reason = "or amiReason must say why it is used"
    amis = versions.amis_of(pool.sdk)
    if amis is None:
        sdks = ", ".join(versions.known_amis())
        return f"is not known to run SDK {pool.sdk}; AMIs are known for {sdks}, {reason}"
    first, last = amis
    span = first if first == last else f"{first} to {last}"
    return f"is not known to run SDK {pool.sdk}; must be {span}, {reason}"
