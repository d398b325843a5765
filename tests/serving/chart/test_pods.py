"""The pods of controller and gateway, and what stands around them."""

from typing import Any

import pytest
import yaml

from neuronfleet.serving.controller.gateway.facts import REPLICA_SELECTOR
from tests.serving.chart.charts import (
    DIGEST,
    EVERY_OPTION,
    NAMESPACE,
    ROOT,
    Object,
    of_kind,
    render,
)
from tests.serving.controller.workloads.restricted import violations

pytestmark = pytest.mark.cluster  # helm is built with the cluster's programs
PARTS = ("controller", "gateway")
NLB = {
    "service": {"type": "LoadBalancer", "loadBalancerClass": "service.k8s.aws/nlb"},
    "apiKeys": {"secretName": "keys"},
}
NLB_PREFIX = "service.beta.kubernetes.io/aws-load-balancer"
ALB_PREFIX = "alb.ingress.kubernetes.io"


def template(values: Any, part: str) -> Object:
    made: Object = of_kind(render(values), "Deployment", f"-{part}")["spec"]["template"]
    return made


def container(values: Any, part: str) -> Object:
    (only,) = template(values, part)["spec"]["containers"]
    found: Object = only
    return found


def service(**gateway: Any) -> Object:
    return of_kind(render({"gateway": gateway}), "Service", "-gateway")


@pytest.mark.parametrize("values", [None, EVERY_OPTION])
@pytest.mark.parametrize("part", PARTS)
def test_pods_keep_the_restricted_standard_and_a_read_only_root(values: Any, part: str) -> None:
    pod = template(values, part)
    (only,) = pod["spec"]["containers"]

    assert not violations(pod)
    assert pod["spec"]["securityContext"]["runAsUser"] == 65532
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["resources"]["requests"].keys() == {"cpu", "memory"}
    assert only["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("part", PARTS)
def test_only_tmp_can_be_written(part: str) -> None:
    mounts = container(EVERY_OPTION, part)["volumeMounts"]

    assert [one["mountPath"] for one in mounts if not one.get("readOnly")] == ["/tmp"]


@pytest.mark.parametrize("part", PARTS)
def test_options_of_a_part_reach_its_pods(part: str) -> None:
    pod = template(EVERY_OPTION, part)
    given: Any = EVERY_OPTION[part]

    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"
    for name in ("priorityClassName", "nodeSelector", "tolerations", "affinity"):
        assert pod["spec"][name] == given[name]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_an_image_is_named_by_digest_by_tag_or_by_the_charts_version() -> None:
    assert (
        container(EVERY_OPTION, "controller")["image"] == f"registry.example/nf/controller@{DIGEST}"
    )
    assert container(EVERY_OPTION, "gateway")["image"] == "registry.example/nf/gateway:1.2"
    assert container(None, "gateway")["image"] == "registry.example/nf/gateway:0.1.0"


@pytest.mark.parametrize("part", PARTS)
def test_pods_of_a_revision_are_spread_over_zones_and_hosts(part: str) -> None:
    deployment = of_kind(render(), "Deployment", f"-{part}")["spec"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]

    assert [one["topologyKey"] for one in spread] == [
        "topology.kubernetes.io/zone", "kubernetes.io/hostname",
    ]  # fmt: skip
    for one in spread:
        assert one["labelSelector"] == deployment["selector"]
        assert one["matchLabelKeys"] == ["pod-template-hash"]


def test_a_gateway_alone_must_not_share_a_host() -> None:
    def how(part: str) -> str:
        host = template(None, part)["spec"]["topologySpreadConstraints"][1]
        return str(host["whenUnsatisfiable"])

    assert (how("controller"), how("gateway")) == ("ScheduleAnyway", "DoNotSchedule")


@pytest.mark.parametrize("part", PARTS)
def test_selectors_meet_their_own_pods_and_no_others(part: str) -> None:
    made = render()
    labels = {one: template(None, one)["metadata"]["labels"] for one in PARTS}
    other = next(one for one in PARTS if one != part)

    selectors = [
        of_kind(made, "Deployment", f"-{part}")["spec"]["selector"]["matchLabels"],
        of_kind(made, "PodDisruptionBudget", f"-{part}")["spec"]["selector"]["matchLabels"],
        of_kind(made, "NetworkPolicy", f"-{part}")["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels[part].items()
        assert not selector.items() <= labels[other].items()


@pytest.mark.parametrize("part", PARTS)
def test_nothing_of_the_chart_looks_like_a_fleets(part: str) -> None:
    wanted = dict(one.split("=") for one in REPLICA_SELECTOR.split(","))

    assert not wanted.items() <= template(None, part)["metadata"]["labels"].items()


@pytest.mark.parametrize("part", PARTS)
def test_one_pod_at_a_time_may_go_and_none_before_its_successor_is_ready(part: str) -> None:
    made = render()
    deployment = of_kind(made, "Deployment", f"-{part}")["spec"]

    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert of_kind(made, "PodDisruptionBudget", f"-{part}")["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("controller", {"controller": {"intervalSeconds": 30}}),
        ("controller", {"prometheus": {"url": "http://other:9090"}}),
        ("gateway", {"gateway": {"idleSeconds": 60}}),
    ],
)
def test_another_setting_is_a_rollout_of_that_part_alone(part: str, values: Any) -> None:
    changed = {one for one in PARTS if template(values, one) != template(None, one)}

    assert changed == {part}


@pytest.mark.parametrize(("leave", "drain", "grace"), [(5, 600, 635), (0.5, 1.5, 33), (0, 0, 30)])
def test_the_kill_comes_after_the_drain(leave: float, drain: float, grace: int) -> None:
    values = {"gateway": {"leaveSeconds": leave, "drainSeconds": drain}}

    assert template(values, "gateway")["spec"]["terminationGracePeriodSeconds"] == grace
    assert "lifecycle" not in container(values, "gateway")


@pytest.mark.parametrize("part", PARTS)
def test_probes_ask_ports_that_the_program_opens(part: str) -> None:
    only = container(None, part)
    text = of_kind(render(), "ConfigMap", f"-{part}")["data"][f"{part}.yaml"]
    document = yaml.safe_load(text)
    ports = {one["name"]: one["containerPort"] for one in only["ports"]}

    for probe in ("readinessProbe", "livenessProbe"):
        port = ports[only[probe]["httpGet"]["port"]]
        assert port == document["httpPort" if part == "controller" else "agentPort"]


def test_peers_are_found_before_they_are_ready_and_while_they_leave() -> None:
    made = of_kind(render(), "Service", "-peers")

    assert made["spec"]["publishNotReadyAddresses"] is True
    assert made["spec"]["clusterIP"] == "None"
    assert made["metadata"]["name"] == "neuronfleet-gateway-peers"


@pytest.mark.parametrize(
    ("tls", "ports"),
    [
        ({}, {"http": 80}),
        ({"secretName": "cert"}, {"https": 443}),
        ({"secretName": "cert", "alsoPlain": True}, {"http": 80, "https": 443}),
    ],
)
def test_with_a_certificate_plain_http_is_offered_only_where_it_is_asked_for(
    tls: Any, ports: dict[str, int]
) -> None:
    made = service(tls=tls)["spec"]["ports"]
    pod = {one["name"] for one in container({"gateway": {"tls": tls}}, "gateway")["ports"]}

    assert {one["name"]: one["port"] for one in made} == ports
    assert pod == {*ports, "agent"}


def test_secrets_are_files_that_the_pods_group_alone_may_read() -> None:
    pod = template(EVERY_OPTION, "gateway")["spec"]
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}

    assert {name: one["secretName"] for name, one in secrets.items()} == {
        "tls": "cert", "keys": "keys",
    }  # fmt: skip
    assert {one["defaultMode"] for one in secrets.values()} == {0o440}
    assert pod["securityContext"]["fsGroup"] == 65532
    # Under a subPath a renewed Secret would never arrive.
    assert not any("subPath" in one for one in container(EVERY_OPTION, "gateway")["volumeMounts"])


def test_an_nlb_lets_streams_be_silent_and_leaving_gateways_end_them() -> None:
    notes = service(**NLB)["metadata"]["annotations"]

    assert notes[f"{NLB_PREFIX}-listener-attributes.TCP-80"] == "tcp.idle_timeout.seconds=3600"
    delay = "deregistration_delay.timeout_seconds=635"
    assert notes[f"{NLB_PREFIX}-target-group-attributes"] == delay
    assert notes[f"{NLB_PREFIX}-healthcheck-path"] == "/health"


def test_an_alb_does_too() -> None:
    values = {"gateway": {"ingress": {"enabled": True}, "apiKeys": {"secretName": "keys"}}}
    made = of_kind(render(values), "Ingress")
    notes = made["metadata"]["annotations"]

    assert notes[f"{ALB_PREFIX}/load-balancer-attributes"] == "idle_timeout.timeout_seconds=3600"
    delay = "deregistration_delay.timeout_seconds=635"
    assert notes[f"{ALB_PREFIX}/target-group-attributes"] == delay
    assert notes[f"{ALB_PREFIX}/scheme"] == "internal"


def test_annotations_of_ones_own_win() -> None:
    own = {f"{NLB_PREFIX}-nlb-target-type": "instance", "note": "z"}
    made = service(**NLB | {"service": NLB["service"] | {"annotations": own}})

    assert own.items() <= made["metadata"]["annotations"].items()
    assert f"{NLB_PREFIX}-healthcheck-path" in made["metadata"]["annotations"]


def test_a_cluster_ip_carries_no_annotation() -> None:
    assert "annotations" not in service()["metadata"]
    assert service()["spec"]["type"] == "ClusterIP"


def test_the_crd_is_kept_at_uninstall_and_is_the_committed_one() -> None:
    made = of_kind(render(), "CustomResourceDefinition")

    assert made["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    committed = ROOT / "serving/crds/servingfleets.neuronfleet.dev.yaml"
    assert made == yaml.safe_load(committed.read_text())


def test_replicas_are_told_to_admit_this_gateway() -> None:
    text = of_kind(render(), "ConfigMap", "-controller")["data"]["controller.yaml"]
    gateway = yaml.safe_load(text)["workloads"]["gateway"]

    assert gateway["namespace"] == NAMESPACE
    assert gateway["labels"].items() <= template(None, "gateway")["metadata"]["labels"].items()
