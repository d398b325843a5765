"""The project's own chart, by image digest."""

from collections.abc import Mapping
from dataclasses import dataclass

from neuronfleet.infra.addons.manifests import prometheus
from neuronfleet.infra.charts import neuron
from neuronfleet.infra.charts.chart import Values
from neuronfleet.infra.settings.model import Serving
from neuronfleet.serving.api.problems import SpecError

PATH = "serving/chart"
RELEASE = "neuronfleet"
NEEDED = ("controller", "gateway")
GENERATIONS: Mapping[str, str] = {
    "vllm-neuron-gen1": "generation1",
    "vllm-neuron-gen2": "generation2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """An image as it lies in a registry."""

    registry: str
    repository: str
    digest: str

    @property
    def values(self) -> dict[str, str]:
        """As the chart takes an image."""
        return {
            "registry": self.registry,
            "repository": self.repository,
            "tag": "",
            "digest": self.digest,
        }


def values(serving: Serving, images: Mapping[str, Pushed]) -> Values:
    """Values of the chart.

    Args:
        serving: where it is installed and where fleets are.
        images: by folder under images/; those that the chart does not run are left alone.

    Raises:
        SpecError: an image that it cannot do without is missing.
    """
    missing = [name for name in NEEDED if name not in images]
    if missing:
        raise SpecError(f"images = {', '.join(images)}, must have {' and '.join(missing)} too")
    generations = {
        field: images[name].values for name, field in GENERATIONS.items() if name in images
    }
    return {
        # Roles in these namespaces, in place of ClusterRoles.
        "watchNamespaces": list(serving.fleet_namespaces),
        "prometheus": {
            "url": prometheus.URL,
            "namespace": prometheus.NAMESPACE,
            "podLabels": dict(prometheus.LABELS),
            "port": prometheus.PORT,
        },
        "fleets": {"images": generations, "schedulerName": neuron.SCHEDULER},
        "controller": {"image": images["controller"].values},
        "gateway": {"image": images["gateway"].values},
        # There is no Prometheus operator: the Prometheus of `prometheus.url` knows what to scrape.
        "monitoring": {"podMonitors": "never", "rules": "never"},
    }
