"""The evaluator against what the Kubernetes documentation of NetworkPolicy says."""

from typing import Any

import pytest

from tests.serving.controller.workloads.policy_evaluator import Peer, allowed, matches

WEB = Peer(name="web", namespace="a", labels={"app": "web"}, ports={"http": 8080})
CLIENT = Peer(name="client", namespace="a", labels={"app": "client"})
OTHER = Peer(name="other", namespace="b", labels={"app": "client"}, namespace_labels={"team": "x"})
OUTSIDE = Peer(name="outside", ip="203.0.113.7")


def policy(namespace: str = "a", app: str | None = "web", **spec: Any) -> dict[str, Any]:
    selector = {} if app is None else {"matchLabels": {"app": app}}
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": selector} | spec}


def test_without_policies_everything_is_allowed() -> None:
    assert allowed([], OTHER, WEB, 8080)
    assert allowed([], OUTSIDE, WEB, "http")


def test_a_policy_without_rules_isolates_the_pods_that_it_selects_and_no_others() -> None:
    closed = policy(policyTypes=["Ingress"])

    assert not allowed([closed], CLIENT, WEB, 8080)
    assert allowed([closed], WEB, CLIENT, 8080)
    assert allowed([policy("b", policyTypes=["Ingress"])], CLIENT, WEB, 8080)


def test_an_empty_pod_selector_selects_every_pod_of_the_namespace() -> None:
    closed = policy(app=None, policyTypes=["Ingress"])

    assert not allowed([closed], OTHER, CLIENT, 1)
    assert allowed([closed], CLIENT, OTHER, 1)


def test_policy_types_default_to_ingress_and_to_egress_where_there_are_egress_rules() -> None:
    assert allowed([policy()], WEB, CLIENT, 1)
    assert not allowed([policy()], CLIENT, WEB, 1)
    assert not allowed([policy(egress=[{"ports": [{"port": 53}]}])], WEB, CLIENT, 1)


def test_an_empty_rule_allows_all_and_no_rule_none() -> None:
    assert allowed([policy(ingress=[{}])], OUTSIDE, WEB, 8080)
    assert not allowed([policy(ingress=[])], OUTSIDE, WEB, 8080)


def test_policies_add_up() -> None:
    closed = policy(app=None, policyTypes=["Ingress"])
    opened = policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}])

    assert allowed([closed, opened], CLIENT, WEB, 8080)


def test_a_pod_selector_alone_means_pods_of_the_policys_own_namespace() -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    rule = policy(ingress=[{"from": peers}])

    assert allowed([rule], CLIENT, WEB, 8080)
    assert not allowed([rule], OTHER, WEB, 8080)


def test_both_selectors_in_one_peer_must_hold_and_in_two_either() -> None:
    namespace = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    pods = {"podSelector": {"matchLabels": {"app": "admin"}}}
    admin = Peer(name="admin", namespace="a", labels={"app": "admin"})

    both, either = (
        policy(ingress=[{"from": [namespace | pods]}]),
        policy(ingress=[{"from": [namespace, pods]}]),
    )

    assert not allowed([both], OTHER, WEB, 8080)
    assert not allowed([both], admin, WEB, 8080)
    assert allowed([either], OTHER, WEB, 8080)
    assert allowed([either], admin, WEB, 8080)


def test_an_empty_namespace_selector_takes_pods_of_all_namespaces_but_nothing_outside() -> None:
    rule = policy(ingress=[{"from": [{"namespaceSelector": {}}]}])

    assert allowed([rule], OTHER, WEB, 8080)
    assert not allowed([rule], OUTSIDE, WEB, 8080)


def test_an_ip_block_takes_its_range_less_the_exceptions() -> None:
    block = {"cidr": "203.0.113.0/24", "except": ["203.0.113.128/25"]}
    rule = policy(ingress=[{"from": [{"ipBlock": block}]}])

    assert allowed([rule], OUTSIDE, WEB, 8080)
    assert not allowed([rule], Peer(name="excepted", ip="203.0.113.200"), WEB, 8080)
    assert not allowed([rule], Peer(name="v6", ip="2001:db8::1"), WEB, 8080)


@pytest.mark.parametrize(
    ("port", "number", "protocol", "expected"),
    [
        ({"port": 8080}, 8080, "TCP", True),
        ({"port": 8080}, 8081, "TCP", False),
        ({"port": 8080}, 8080, "UDP", False),
        ({"port": 8080, "protocol": "UDP"}, 8080, "UDP", True),
        ({"port": "http"}, 8080, "TCP", True),
        ({"port": "metrics"}, 8080, "TCP", False),
        ({"port": 8000, "endPort": 8100}, 8080, "TCP", True),
        ({"port": 8000, "endPort": 8010}, 8080, "TCP", False),
        ({"protocol": "TCP"}, 1, "TCP", True),
    ],
)
def test_ports(port: dict[str, Any], number: int, protocol: str, expected: bool) -> None:
    assert allowed([policy(ingress=[{"ports": [port]}])], CLIENT, WEB, number, protocol) is expected


def test_a_rule_needs_its_peer_and_its_port_together() -> None:
    here = {"podSelector": {"matchLabels": {"app": "client"}}}
    rules = [
        {"from": [here], "ports": [{"port": 1}]},
        {"from": [{"namespaceSelector": {}}], "ports": [{"port": 2}]},
    ]

    assert allowed([policy(ingress=rules)], CLIENT, WEB, 1)
    assert allowed([policy(ingress=rules)], OTHER, WEB, 2)
    assert not allowed([policy(ingress=rules)], OTHER, WEB, 1)


def test_a_connection_needs_egress_of_its_source_and_ingress_of_its_destination() -> None:
    mute = policy("b", "client", policyTypes=["Egress"])
    deaf = policy(policyTypes=["Ingress"])

    assert not allowed([mute], OTHER, WEB, 8080)
    assert not allowed([deaf], OTHER, WEB, 8080)
    assert allowed([mute], WEB, OTHER, 8080)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["web", "api"], True),
        ("In", ["api"], False),
        ("NotIn", ["api"], True),
        ("NotIn", ["web"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
    ],
)
def test_label_expressions(operator: str, values: list[str] | None, expected: bool) -> None:
    one = {"key": "app", "operator": operator} | ({"values": values} if values else {})

    assert matches({"matchExpressions": [one]}, {"app": "web"}) is expected


def test_not_in_holds_for_pods_without_the_label() -> None:
    assert matches({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]}, {})
