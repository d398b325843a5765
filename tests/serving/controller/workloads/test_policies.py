"""NetworkPolicies by what they mean: every pair of pods of a small cluster, evaluated."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.serving.controller import workloads
from tests.serving.controller.workloads.fleets import OWNER, SETTINGS, a_fleet, pod
from tests.serving.controller.workloads.policy_evaluator import Peer, allowed

HUB = a_fleet(name="hub")
CLAIM = a_fleet(name="claim", model={"name": "m", "source": {"pvc": "weights/m"}})
S3 = a_fleet(name="s3", model={"name": "m", "source": {"s3": "s3://bucket/m"}})


def replica(one: Any, number: int) -> Peer:
    return Peer(
        name=f"{one.name}-{number}",
        namespace="team",
        labels=pod(one)["metadata"]["labels"],
        ip=f"10.244.1.{number}",
        ports={"http": 8000},
    )


def policies(*fleets: Any, **settings: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for one in fleets:
        made += workloads.network_policies(
            one, namespace="team", owner=OWNER, settings=replace(SETTINGS, **settings)
        )
    return made


GATEWAY = Peer(
    name="gateway",
    namespace=SETTINGS.gateway_namespace,
    labels=dict(SETTINGS.gateway_labels) | {"pod-template-hash": "x"},
)
PROMETHEUS = Peer(
    name="prometheus", namespace="monitoring", labels=dict(SETTINGS.monitoring_labels)
)
CONTROLLER = Peer(
    name="controller",
    namespace=SETTINGS.gateway_namespace,
    labels={"app.kubernetes.io/name": "neuronfleet-controller"},
)
IMPOSTOR = Peer(name="impostor", namespace="elsewhere", labels=dict(SETTINGS.gateway_labels))
SPY = Peer(name="spy", namespace="elsewhere", labels=dict(SETTINGS.monitoring_labels))
NEIGHBOUR = Peer(name="neighbour", namespace="team", labels={"app": "x"}, ports={"http": 8000})
CLIENT = Peer(name="client", ip="203.0.113.7")
DNS = Peer(name="dns", namespace="kube-system", labels={"k8s-app": "kube-dns"}, ip="10.244.0.3")
API_SERVER = Peer(name="api-server", ip="10.96.0.1")
API_ENDPOINT = Peer(name="api-endpoint", ip="172.31.4.5")
METADATA = Peer(name="metadata", ip="169.254.169.254")
HUGGING_FACE = Peer(name="hugging-face", ip="18.164.174.17")
REPLICAS = [replica(HUB, 1), replica(HUB, 2), replica(CLAIM, 3), replica(S3, 4)]
OTHERS = [GATEWAY, PROMETHEUS, CONTROLLER, IMPOSTOR, SPY, NEIGHBOUR, CLIENT]
OUTSIDE = [API_SERVER, API_ENDPOINT, METADATA, HUGGING_FACE]
ALL = policies(HUB, CLAIM, S3)


def test_of_every_pair_only_the_gateway_and_prometheus_reach_replicas() -> None:
    reached = {
        (source.name, destination.name)
        for source, destination in itertools.permutations([*REPLICAS, *OTHERS], 2)
        if destination in REPLICAS and allowed(ALL, source, destination, 8000)
    }

    assert reached == {
        (source, one.name) for source in ("gateway", "prometheus") for one in REPLICAS
    }


@pytest.mark.parametrize("port", [1, 22, 8001, 9100])
def test_not_even_they_reach_another_port(port: int) -> None:
    assert not any(
        allowed(ALL, source, one, port) for source in (GATEWAY, PROMETHEUS) for one in REPLICAS
    )


def test_of_every_pair_replicas_reach_names_and_their_own_weights_and_nothing_else() -> None:
    targets = [*REPLICAS, *OTHERS, *OUTSIDE, DNS]
    reached = {
        (source.name, destination.name, port)
        for source, destination in itertools.product(REPLICAS, targets)
        for port in (53, 80, 443, 6443, 8000)
        if source is not destination and allowed(ALL, source, destination, port)
    }

    names = {(one.name, "dns", 53) for one in REPLICAS}
    fetching = ("hub-1", "hub-2", "s3-4")
    weights = {(one, target, 443) for one in fetching for target in ("hugging-face", "client")}
    assert reached == names | weights


def test_names_are_asked_over_udp_too_and_at_the_nodes_own_cache() -> None:
    node_local = Peer(name="node-local", ip="169.254.20.10")

    assert all(allowed(ALL, one, DNS, 53, "UDP") for one in REPLICAS)
    assert all(allowed(ALL, one, node_local, 53, "UDP") for one in REPLICAS)


def test_only_s3_weights_may_ask_the_pod_identity_agent() -> None:
    agent = Peer(name="agent", ip="169.254.170.23")

    assert [one.name for one in REPLICAS if allowed(ALL, one, agent, 80)] == ["s3-4"]


def test_pods_that_are_no_replicas_keep_what_they_had() -> None:
    assert allowed(ALL, CLIENT, NEIGHBOUR, 8000)
    assert allowed(ALL, NEIGHBOUR, API_SERVER, 443)


def test_without_a_monitoring_namespace_no_prometheus_gets_in() -> None:
    blind = policies(HUB, monitoring_namespace=None, monitoring_labels={"app": "prometheus"})

    assert not allowed(blind, PROMETHEUS, REPLICAS[0], 8000)
    assert allowed(blind, GATEWAY, REPLICAS[0], 8000)


def test_a_private_endpoint_is_reached_where_it_is_named_and_only_that() -> None:
    narrow = policies(S3, weights_cidrs=("10.0.12.0/24",))

    assert allowed(narrow, REPLICAS[3], Peer(name="endpoint", ip="10.0.12.9"), 443)
    assert not allowed(narrow, REPLICAS[3], API_SERVER, 443)
    assert not allowed(narrow, REPLICAS[3], HUGGING_FACE, 443)


def test_the_policy_covers_both_address_families() -> None:
    hub = Peer(name="hub-v6", ip="2600:9000::1")
    private = Peer(name="api-v6", ip="fd12::1")

    assert allowed(ALL, REPLICAS[0], hub, 443)
    assert not allowed(ALL, REPLICAS[0], private, 443)


def test_without_the_policies_everybody_would_reach_replicas() -> None:
    assert all(allowed([], source, REPLICAS[0], 8000) for source in OTHERS)
