"""What the chart tells a Prometheus operator."""

import re
from typing import Any

import pytest
import yaml

from neuronfleet.serving.controller.records import fleet_key
from neuronfleet.serving.controller.source import SCRAPED_AT
from tests.serving.chart.charts import APIS, ROOT, Object, of_kind, render
from tests.serving.controller.workloads.fleets import a_fleet, pod

pytestmark = pytest.mark.cluster  # helm is built with the cluster's programs


def monitor(part: str, **values: Any) -> Object:
    return of_kind(render(values, apis=APIS), "PodMonitor", f"-{part}")


def relabelled(labels: dict[str, str], rules: list[Object]) -> dict[str, str]:
    """Labels after relabelling with the action `replace`, as Prometheus documents it."""
    for rule in rules:
        joined = rule.get("separator", ";").join(labels.get(n, "") for n in rule["sourceLabels"])
        found = re.fullmatch(rule.get("regex", "(.*)"), joined)
        if found:
            value = found.expand(rule.get("replacement", "$1").replace("$", "\\"))
            labels = labels | {rule["targetLabel"]: value}
    return labels


def discovered(namespace: str, name: str, labels: dict[str, str]) -> dict[str, str]:
    """Labels by which Prometheus knows a pod."""
    prefix = "__meta_kubernetes_pod_label_"
    made = {prefix + re.sub("[^a-zA-Z0-9_]", "_", key): value for key, value in labels.items()}
    return made | {"__meta_kubernetes_namespace": namespace, "__meta_kubernetes_pod_name": name}


def test_a_replica_is_known_by_its_fleets_key_its_variant_and_its_name() -> None:
    template = pod(a_fleet(name="llama-8b"))
    (endpoint,) = monitor("replica")["spec"]["podMetricsEndpoints"]

    found = relabelled(
        discovered("team", "llama-8b-inf2-0", template["metadata"]["labels"]),
        endpoint["relabelings"],
    )

    assert found["fleet"] == fleet_key("team", "llama-8b")
    assert found["variant"] == "inf2"
    assert found["replica"] == "llama-8b-inf2-0"


def test_replicas_are_scraped_where_they_listen() -> None:
    template = pod(a_fleet())
    spec = monitor("replica")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]

    ports = {one["name"] for one in template["spec"]["containers"][0]["ports"]}
    assert endpoint["port"] in ports
    assert endpoint["path"] == "/metrics"
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("scraped", "kept"), [("vllm_x:y", "vllm:x:y"), ("vllm:x", "vllm:x"), ("up", "up")]
)
def test_an_escaped_colon_is_put_back(scraped: str, kept: str) -> None:
    (endpoint,) = monitor("replica")["spec"]["podMetricsEndpoints"]

    found = relabelled({"__name__": scraped}, endpoint["metricRelabelings"])

    assert found["__name__"] == kept


@pytest.mark.parametrize(("part", "port"), [("controller", "http"), ("gateway", "agent")])
def test_controller_and_gateway_are_scraped_where_they_listen(part: str, port: str) -> None:
    spec = monitor(part)["spec"]
    template = of_kind(render(), "Deployment", f"-{part}")["spec"]["template"]
    (only,) = template["spec"]["containers"]

    assert spec["podMetricsEndpoints"] == [{"port": port, "path": "/metrics", "interval": "15s"}]
    assert port in {one["name"] for one in only["ports"]}
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_replicas_are_looked_for_in_the_namespaces_of_fleets() -> None:
    everywhere = monitor("replica")["spec"]["namespaceSelector"]
    some = monitor("replica", watchNamespaces=["team"])["spec"]["namespaceSelector"]

    assert (everywhere, some) == ({"any": True}, {"matchNames": ["team"]})


def test_labels_and_interval_reach_all_of_them() -> None:
    values = {"monitoring": {"labels": {"release": "prom"}, "intervalSeconds": 30}}
    made = [one for one in render(values, apis=APIS) if "coreos" in one["apiVersion"]]

    assert len(made) == 4
    assert all(one["metadata"]["labels"]["release"] == "prom" for one in made)
    assert {
        endpoint["interval"]
        for one in made
        for endpoint in one["spec"].get("podMetricsEndpoints", ())
    } == {"30s"}


def test_the_rules_are_those_that_the_controller_asks_for() -> None:
    made = of_kind(render(apis=APIS), "PrometheusRule")["spec"]

    assert made == yaml.safe_load((ROOT / "monitoring/rules/fleet.yml").read_text())
    recorded = {rule["record"] for group in made["groups"] for rule in group["rules"]}
    assert SCRAPED_AT in recorded
