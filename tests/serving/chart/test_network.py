"""The chart's policies with those of fleets, by what they mean for every pair of pods."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.controller import settings as controller_settings
from neuronfleet.serving.controller import workloads
from neuronfleet.serving.controller.workloads.replica_spec import PORT
from tests.serving.chart.charts import NAMESPACE, Object, of_kind, render
from tests.serving.controller.workloads.fleets import OWNER, a_fleet, pod
from tests.serving.controller.workloads.policy_evaluator import Peer, allowed

pytestmark = pytest.mark.cluster  # helm is built with the cluster's programs
FLEET = a_fleet(name="hub")
METRICS, AGENT, HTTP, HTTPS, QUEUE, LAST_QUEUE = 8080, 8090, 8080, 8443, 20000, 29999
ASKED = (53, 80, 443, 6443, PORT, METRICS, HTTPS, AGENT, 9090, QUEUE, 24000, LAST_QUEUE, 30000)


def world(values: Mapping[str, Any] | None = None) -> tuple[list[Object], dict[str, Peer]]:
    """All policies of a cluster with one fleet, and its pods."""
    made = render(values)
    text = of_kind(made, "ConfigMap", "-controller")["data"]["controller.yaml"]
    settings = controller_settings.read(Fields(yaml.safe_load(text), "", [])).workloads
    policies = [one for one in made if one["kind"] == "NetworkPolicy"]
    policies += workloads.network_policies(FLEET, namespace="team", owner=OWNER, settings=settings)
    return policies, {one.name: one for one in _peers(made)}


def _peers(made: list[Object]) -> list[Peer]:
    def part(name: str, of: str, ip: str) -> Peer:
        labels = of_kind(made, "Deployment", f"-{of}")["spec"]["template"]["metadata"]["labels"]
        return Peer(name=name, namespace=NAMESPACE, labels=labels, ip=ip)

    replica = pod(FLEET)["metadata"]["labels"]
    client = {"neuronfleet.dev/client": "true"}
    gateway = part("gateway-0", "gateway", "10.244.0.11")
    prometheus = {"app.kubernetes.io/name": "prometheus"}
    return [
        part("controller", "controller", "10.244.0.10"),
        gateway,
        part("gateway-1", "gateway", "10.244.0.12"),
        Peer(name="replica", namespace="team", labels=replica, ip="10.244.0.13",
             ports={"http": PORT}),
        Peer(name="prometheus", namespace="monitoring", labels=prometheus, ip="10.244.0.14"),
        Peer(name="client", namespace="apps", labels=client, ip="10.244.0.15"),
        Peer(name="stranger", namespace="apps", ip="10.244.0.16"),
        Peer(name="neighbour", namespace=NAMESPACE, labels={"app": "x"}, ip="10.244.0.17"),
        Peer(name="impostor", namespace="apps", labels=gateway.labels, ip="10.244.0.18"),
        Peer(name="spy", namespace="apps", labels=prometheus, ip="10.244.0.19"),
        Peer(name="dns", namespace="kube-system", labels={"k8s-app": "kube-dns"},
             ip="10.244.0.20"),
        Peer(name="api-server", ip="172.31.4.5"),
        Peer(name="outside", ip="203.0.113.7"),
    ]  # fmt: skip


def reached(
    policies: list[Object], peers: dict[str, Peer], *targets: str
) -> set[tuple[str, str, int]]:
    """Who reaches whom of the targets, on which of the ports that matter."""
    return {
        (source.name, target.name, port)
        for source, target in itertools.permutations(peers.values(), 2)
        for port in ASKED
        if target.name in targets and allowed(policies, source, target, port)
    }


def test_only_gateways_and_prometheus_reach_replicas_and_only_on_their_port() -> None:
    policies, peers = world()

    assert reached(policies, peers, "replica") == {
        (source, "replica", PORT) for source in ("gateway-0", "gateway-1", "prometheus")
    }


def test_clients_reach_the_clients_port_prometheus_the_metrics_and_gateways_each_other() -> None:
    policies, peers = world()

    assert reached(policies, peers, "gateway-0") == {
        ("client", "gateway-0", HTTP),
        ("prometheus", "gateway-0", AGENT),
        ("controller", "gateway-0", AGENT),
        *(("gateway-1", "gateway-0", port) for port in (AGENT, QUEUE, 24000, LAST_QUEUE)),
    }


def test_with_a_certificate_clients_reach_https_alone() -> None:
    policies, peers = world({"gateway": {"tls": {"secretName": "cert"}}})

    ports = {
        port for source, _, port in reached(policies, peers, "gateway-0") if source == "client"
    }
    assert ports == {HTTPS}


def test_only_prometheus_reaches_the_controller() -> None:
    policies, peers = world()

    assert reached(policies, peers, "controller") == {("prometheus", "controller", METRICS)}


def test_the_gateway_reaches_replicas_its_own_and_the_api_server_and_nothing_else() -> None:
    policies, peers = world({"networkPolicy": {"apiServer": {"cidrs": ["172.31.0.0/16"]}}})

    from_gateway = {one for one in reached(policies, peers, *peers) if one[0] == "gateway-0"}
    assert from_gateway == {
        ("gateway-0", "replica", PORT),
        ("gateway-0", "api-server", 443),
        ("gateway-0", "api-server", 6443),
        *(("gateway-0", "gateway-1", port) for port in (AGENT, QUEUE, 24000, LAST_QUEUE)),
    }


def test_the_controller_reaches_prometheus_names_and_the_api_server_and_nothing_else() -> None:
    policies, peers = world({"networkPolicy": {"apiServer": {"cidrs": ["172.31.0.0/16"]}}})

    from_controller = {one for one in reached(policies, peers, *peers) if one[0] == "controller"}
    assert from_controller == {
        ("controller", "prometheus", 9090),
        ("controller", "dns", 53),
        ("controller", "gateway-0", AGENT),
        ("controller", "gateway-1", AGENT),
        ("controller", "api-server", 443),
        ("controller", "api-server", 6443),
    }


def test_names_are_asked_over_udp_too() -> None:
    policies, peers = world()

    assert allowed(policies, peers["controller"], peers["dns"], 53, "UDP")
    assert not allowed(policies, peers["gateway-0"], peers["dns"], 53, "UDP")


def test_the_api_server_may_be_anywhere_unless_it_is_said_where() -> None:
    policies, peers = world()

    assert allowed(policies, peers["gateway-0"], peers["outside"], 443)
    assert not allowed(policies, peers["gateway-0"], peers["outside"], 80)


def test_a_prometheus_that_is_no_pod_is_reached_at_its_address() -> None:
    policies, peers = world(
        {
            "prometheus": {"namespace": "", "cidrs": ["203.0.113.7/32"]},
            "networkPolicy": {"apiServer": {"cidrs": ["172.31.0.0/16"]}},
        }
    )

    assert allowed(policies, peers["controller"], peers["outside"], 9090)
    assert not reached(policies, peers, "controller")
    assert {source for source, *_ in reached(policies, peers, "replica")} == {
        "gateway-0", "gateway-1",
    }  # fmt: skip


def test_clients_are_whom_the_values_name() -> None:
    clients = [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
    policies, peers = world({"networkPolicy": {"clients": clients}})

    sources = {source for source, _, port in reached(policies, peers, "gateway-0") if port == HTTP}
    assert sources == {"outside"}


def test_without_clients_nobody_asks() -> None:
    policies, peers = world({"networkPolicy": {"clients": []}})

    assert {source for source, *_ in reached(policies, peers, "gateway-0")} == {
        "controller", "gateway-1", "prometheus",
    }  # fmt: skip


def test_in_namespaces_replicas_of_others_are_out_of_reach() -> None:
    policies, peers = world({"watchNamespaces": ["team"]})
    labels = peers["replica"].labels
    other = Peer(name="other", namespace="elsewhere", labels=labels, ip="10.244.0.30")

    assert allowed(policies, peers["gateway-0"], peers["replica"], PORT)
    # 8000 at an address within the API server's ranges is not among their ports.
    assert not allowed(policies, peers["gateway-0"], other, PORT)


def test_without_policies_everybody_would_reach_everything() -> None:
    _, peers = world()

    assert allowed([], peers["stranger"], peers["gateway-0"], AGENT)
