"""Names that are given twice, counts that contradict each other, keys that AWS keeps."""

from collections.abc import Iterator, Sequence

from neuronfleet.infra.settings.model import NewCluster, Settings
from neuronfleet.serving.api.problems import Problem


def problems(settings: Settings) -> Iterator[Problem]:
    """What is wrong with names and counts."""
    yield from _twice([pool.name for pool in settings.pools], "pools[{}].name")
    yield from _twice([image.name for image in settings.images], "images[{}].name")
    for index, pool in enumerate(settings.pools):
        yield from _twice(
            [f"{model.fleet} {model.name}" for model in pool.models],
            f"pools[{index}].models[{{}}]",
        )
        yield from _order(f"pools[{index}]", pool.least, pool.most)
    if isinstance(settings.cluster, NewCluster):
        nodes = settings.cluster.system_nodes
        yield from _order("cluster.systemNodes", nodes.least, nodes.most)
        yield from _twice([one.arn for one in settings.cluster.admins], "cluster.admins[{}]")
    if not settings.serving.fleet_namespaces:
        allowed = "must name the namespaces where fleets live, as [models]"
        yield Problem(path="serving.fleetNamespaces", value="nothing", allowed=allowed)
    yield from _twice(settings.serving.fleet_namespaces, "serving.fleetNamespaces[{}]")
    for key in settings.tags:
        if key.lower().startswith("aws:"):
            yield Problem(path=f"tags.{key}", value=key, allowed="must not start with aws:")


def _twice(names: Sequence[str], path: str) -> Iterator[Problem]:
    for index, name in enumerate(names):
        if name in names[:index]:
            where = path.format(names.index(name))
            allowed = f"is that of {where} already; must be another, or given once"
            yield Problem(path=path.format(index), value=name, allowed=allowed)


def _order(path: str, least: int, most: int) -> Iterator[Problem]:
    if least > most:
        yield Problem(path=f"{path}.least", value=least, allowed=f"must be at most most = {most}")
