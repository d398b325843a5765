"""What is scraped, by the labels and ports that the project's own objects carry."""

from collections.abc import Mapping
from typing import Any

from neuronfleet.infra.addons.manifests import neuron_monitor
from neuronfleet.infra.charts import karpenter

Job = dict[str, Any]

INTERVAL_S = 15
"""The controller's round, and the interval of its rules."""
_POD = "__meta_kubernetes_pod"
_NAMESPACE = "__meta_kubernetes_namespace"
_NAME = f"{_POD}_label_app_kubernetes_io_name"
_COMPONENT = f"{_POD}_label_app_kubernetes_io_component"
_MANAGER = f"{_POD}_label_app_kubernetes_io_managed_by"
_PORT = f"{_POD}_container_port_name"


def product_jobs() -> list[Job]:
    """Controller, gateways and replicas, labelled as the chart's PodMonitors label them."""
    chart = {_NAME: "neuronfleet"}
    replica = _pods("replicas", {_MANAGER: "neuronfleet", _COMPONENT: "replica", _PORT: "http"})
    replica["relabel_configs"] += [
        _copied([_NAMESPACE, f"{_POD}_label_neuronfleet_dev_fleet"], "fleet"),
        _copied([f"{_POD}_label_neuronfleet_dev_variant"], "variant"),
        _copied([f"{_POD}_name"], "replica"),
    ]
    # A scraper without UTF-8 escaping gets vllm_x for vllm:x.
    replica["metric_relabel_configs"] = [
        {
            "source_labels": ["__name__"],
            "regex": "vllm_(.+)",
            "target_label": "__name__",
            "replacement": "vllm:$1",
        }
    ]
    return [
        _pods("controller", {**chart, _COMPONENT: "controller", _PORT: "http"}),
        _pods("gateways", {**chart, _COMPONENT: "gateway", _PORT: "agent"}),
        replica,
    ]


def infrastructure_jobs() -> list[Job]:
    """Neuron devices and Karpenter; each told by its namespace, since labels are anybody's."""
    devices = {
        _NAMESPACE: neuron_monitor.NAMESPACE,
        _NAME: neuron_monitor.NAME,
        _PORT: neuron_monitor.PORT_NAME,
    }
    controller = {_NAMESPACE: karpenter.NAMESPACE, _NAME: "karpenter", _PORT: "http-metrics"}
    return [_pods("neuron-monitor", devices), _pods("karpenter", controller)]


def _pods(name: str, labels: Mapping[str, str]) -> Job:
    """Running pods with these labels, at the port of this name.

    Only fields that the managed scraper's documentation shows.
    """
    kept = [
        {"source_labels": [label], "regex": value, "action": "keep"}
        for label, value in labels.items()
    ]
    ended = {
        "source_labels": [f"{_POD}_phase"],
        "regex": "Pending|Succeeded|Failed",
        "action": "drop",
    }
    copied = [
        _copied([_NAMESPACE], "namespace"),
        _copied([f"{_POD}_name"], "pod"),
        _copied([f"{_POD}_node_name"], "node"),
    ]
    return {
        "job_name": name,
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [*kept, ended, *copied],
    }


def _copied(sources: list[str], target: str) -> dict[str, Any]:
    return {"source_labels": sources, "separator": ".", "target_label": target}
