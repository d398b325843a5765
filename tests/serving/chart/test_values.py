"""Which values the chart takes, and how it refuses the others."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import Problem
from neuronfleet.serving.controller import settings as controller_settings
from neuronfleet.serving.controller.gateway import settings as gateway_settings
from neuronfleet.serving.controller.gateway.settings import AgentSettings
from neuronfleet.serving.controller.settings import ControllerSettings
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings
from tests.serving.chart.charts import (
    APIS,
    CHART,
    EVERY_OPTION,
    NAMESPACE,
    NEEDED,
    Object,
    kinds,
    lint,
    of_kind,
    refusal,
    render,
)

pytestmark = pytest.mark.cluster  # helm is built with the cluster's programs
PODS = {"POD_NAME": "gateway-0", "POD_IP": "10.244.0.7", "POD_NAMESPACE": NAMESPACE}
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
USUAL = {
    "ConfigMap", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment",
    "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Service", "ServiceAccount",
}  # fmt: skip


def settings(objects: list[Object]) -> tuple[ControllerSettings, AgentSettings]:
    """What the two programs read of their files."""
    problems: list[Problem] = []

    def fields(part: str) -> Fields:
        text = of_kind(objects, "ConfigMap", f"-{part}")["data"][f"{part}.yaml"]
        return Fields(yaml.safe_load(text), "", problems)

    read = (
        controller_settings.read(fields("controller")),
        gateway_settings.read(fields("gateway"), PODS),
    )
    assert not problems
    return read


@pytest.mark.parametrize("values", [NEEDED, EVERY_OPTION])
def test_helm_lint_finds_nothing(values: Mapping[str, Any]) -> None:
    checked = lint(values)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "WARNING" not in checked.stdout


def test_one_value_is_enough() -> None:
    assert kinds(render()) == USUAL


def test_without_it_the_chart_says_which() -> None:
    assert refusal({"imageRegistry": ""}).count("imageRegistry = nothing, must be") == 1


def test_every_option_adds_what_it_names() -> None:
    added = kinds(render(EVERY_OPTION)) - USUAL

    assert added == {"Ingress", "PodMonitor", "PrometheusRule"}


def test_what_prometheus_reads_is_made_where_the_cluster_knows_the_kinds() -> None:
    asked = {"monitoring": {"podMonitors": "never", "rules": "never"}}

    assert kinds(render(apis=APIS)) - USUAL == {"PodMonitor", "PrometheusRule"}
    assert kinds(render(asked, apis=APIS)) == USUAL


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"crd": {"install": False}}, {"CustomResourceDefinition"}),
        ({"networkPolicy": {"enabled": False}}, {"NetworkPolicy"}),
        ({"watchNamespaces": [NAMESPACE]}, set()),
    ],
)
def test_an_option_takes_away_what_it_names(values: Any, missing: set[str]) -> None:
    assert kinds(render(values)) == USUAL - missing


@pytest.mark.parametrize(("part", "other"), [("controller", "gateway"), ("gateway", "controller")])
def test_each_part_can_be_left_out(part: str, other: str) -> None:
    made = render({part: {"enabled": False}})

    components = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in made
        if one["kind"] != "CustomResourceDefinition"
    }
    assert components == {other}


def test_the_defaults_are_those_of_the_programs() -> None:
    controller, gateway = settings(render())

    assert controller == ControllerSettings(
        prometheus_url="http://prometheus-operated.monitoring.svc:9090",
        lease_namespace=NAMESPACE,
        workloads=WorkloadSettings(
            images={},
            gateway_namespace=NAMESPACE,
            gateway_labels={
                "app.kubernetes.io/name": "neuronfleet",
                "app.kubernetes.io/component": "gateway",
            },
            monitoring_namespace="monitoring",
            monitoring_labels={"app.kubernetes.io/name": "prometheus"},
        ),
    )
    assert gateway == AgentSettings(
        pod="gateway-0",
        pod_ip="10.244.0.7",
        namespace=NAMESPACE,
        service="neuronfleet-gateway-peers",
        directory=Path("/tmp/gw"),
    )


def test_every_option_reaches_the_programs() -> None:
    controller, gateway = settings(render(EVERY_OPTION))

    digest = "sha256:" + "0a" * 32
    assert controller.workloads.images == {
        1: "registry.example/nf/vllm-neuron-gen1:1",
        2: f"other.example/g2@{digest}",
    }
    assert controller.workloads.scheduler_name == "neuron-scheduler"
    assert controller.namespaces == gateway.namespaces == ("team-a", "team-b")
    assert str(gateway.tls_certificate) == "/etc/neuronfleet/tls/tls.crt"
    assert str(gateway.keys_file) == "/etc/neuronfleet/keys/keys"


def _numbers(
    node: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if "minimum" in node:
        yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from _numbers(inner, (*path, name))


NUMBERS = dict(_numbers(SCHEMA, ()))


def at(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Values with one of them set."""
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("end", ["minimum", "maximum"])
def test_the_programs_take_every_number_at_the_ends_of_its_range(end: str) -> None:
    values: dict[str, Any] = {}
    for path, node in NUMBERS.items():
        inner = values
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = node[end]

    controller, gateway = settings(render(values))

    whole = {"minimum": (0.5, 1.0, 0.0), "maximum": (600.0, 86_400.0, 86_400.0)}[end]
    assert (controller.interval_s, gateway.idle_s, gateway.drain_s) == whole


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_a_number_out_of_its_range_is_refused_by_its_name(path: tuple[str, ...]) -> None:
    node = NUMBERS[path]
    said = refusal(at(path, node["maximum"] + 1))

    assert f"/{'/'.join(path)}'" in said
    assert f"want {node['maximum']:,}" in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"controler": {}}, "'controler' not allowed"),
        ({"controller": {"replica": 2}}, "at '/controller': additional properties 'replica'"),
        ({"controller": {"replicas": None}}, "at '/controller': missing property 'replicas'"),
        ({"controller": {"replicas": "two"}}, "'/controller/replicas': got string, want integer"),
        ({"gateway": {"image": {"digest": "sha256:0a"}}}, "/gateway/image/digest"),
        ({"gateway": {"service": {"type": "External"}}}, "/gateway/service/type"),
        ({"gateway": {"resources": {"request": {}}}}, "/gateway/resources"),
        ({"gateway": {"tolerations": [{"keys": "x"}]}}, "/gateway/tolerations/0"),
        ({"networkPolicy": {"clients": [{}]}}, "/networkPolicy/clients/0"),
        ({"networkPolicy": {"clients": [{"ipBlock": {"cidr": "x"}}]}}, "ipBlock/cidr"),
        ({"networkPolicy": {"apiServer": {"cidrs": []}}}, "/networkPolicy/apiServer/cidrs"),
        ({"watchNamespaces": ["Team"]}, "/watchNamespaces/0"),
        ({"watchNamespaces": ["a", "a"]}, "/watchNamespaces"),
        ({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url"),
        ({"monitoring": {"rules": "yes"}}, "/monitoring/rules"),
    ],
)  # fmt: skip
def test_what_the_schema_refuses_is_told_by_its_path(values: Any, said: str) -> None:
    assert said in refusal(values)


ALB = {"ingress": {"enabled": True}, "apiKeys": {"allowAnonymous": True}}
NLB = {
    "service": {"type": "LoadBalancer", "loadBalancerClass": "service.k8s.aws/nlb"},
    "apiKeys": {"secretName": "keys"},
}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"gateway": {"service": {"type": "LoadBalancer"}}},
            "gateway.apiKeys.secretName = nothing, must name a Secret",
        ),
        ({"gateway": {"ingress": {"enabled": True}}}, "gateway.apiKeys.secretName = nothing"),
        (
            {"gateway": {"apiKeys": {"secretName": "k", "allowAnonymous": True}}},
            "gateway.apiKeys.allowAnonymous = true, must be false",
        ),
        ({"gateway": {"tls": {"alsoPlain": True}}}, "gateway.tls.alsoPlain = true, must be false"),
        (
            {"gateway": ALB | {"idleSeconds": 4001, "keepAliveSeconds": 5000}},
            "gateway.idleSeconds = 4001, must be in [1, 4000]",
        ),
        (
            {"gateway": ALB | {"keepAliveSeconds": 3600}},
            "gateway.keepAliveSeconds = 3600, must be above gateway.idleSeconds = 3600",
        ),
        ({"gateway": NLB | {"idleSeconds": 59}}, "gateway.idleSeconds = 59, must be in [60, 6000]"),
        ({"gateway": NLB | {"drainSeconds": 3566}}, "drainSeconds = 3566, must be at most 3565"),
        (
            {"gateway": {"service": {"loadBalancerClass": "x"}}},
            "gateway.service.type = ClusterIP, must be LoadBalancer",
        ),
        (
            {"gateway": {"podLabels": {"app.kubernetes.io/name": "x"}}},
            "gateway.podLabels[app.kubernetes.io/name], must not be a label of the chart",
        ),
        (
            {"fleets": {"images": {"generation1": {"repository": "x"}}}},
            "fleets.images.generation1 = x without tag or digest",
        ),
        (
            {"fleets": {"images": {"generation2": {"tag": "x"}}}},
            "fleets.images.generation2.repository = nothing",
        ),
        ({"prometheus": {"podLabels": None}}, "/prometheus': missing property 'podLabels'"),
    ],
)
def test_what_contradicts_is_told_with_its_range(values: Any, said: str) -> None:
    assert said in refusal(values)


def test_all_contradictions_are_told_at_once() -> None:
    said = refusal({"imageRegistry": "", "gateway": {"tls": {"alsoPlain": True}}})

    assert "imageRegistry" in said
    assert "alsoPlain" in said


def test_a_parent_charts_globals_are_taken() -> None:
    assert render({"global": {"anything": 1}})


def test_names_fit_where_the_release_has_a_long_one() -> None:
    names = [
        one["metadata"]["name"]
        for one in render(release="a" * 53)
        if one["kind"] in ("Service", "Deployment", "ServiceAccount")
    ]

    assert max(map(len, names)) <= 63


def test_two_releases_of_one_name_share_no_object_of_the_cluster() -> None:
    def wide(namespace: str) -> set[tuple[str, str]]:
        made = render({"crd": {"install": False}}, namespace=namespace)
        return {
            (one["kind"], one["metadata"]["name"])
            for one in made
            if "namespace" not in one["metadata"]
        }

    assert not wide("one") & wide("two")
