"""EFA interfaces in Kubernetes, where pools have any."""

from constructs import Construct

from neuronfleet.infra.addons import helm
from neuronfleet.infra.charts import efa
from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.stacks.facts import ClusterFacts


def efa_types(settings: Settings) -> tuple[str, ...]:
    """Instance types of the pools that have EFA."""
    return tuple(sorted({pool.instance_type for pool in settings.pools if pool.efa}))


class Efa(Construct):
    """The EFA device plugin, on the nodes of these types."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: ClusterFacts, settings: Settings
    ) -> None:
        super().__init__(scope, id)
        helm.install(
            self,
            "Chart",
            efa.CHART,
            cluster=cluster.cluster,
            namespace=efa.NAMESPACE,
            values=efa.values(efa_types(settings)),
        )
