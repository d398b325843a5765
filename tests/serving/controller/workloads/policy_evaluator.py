"""What NetworkPolicies mean, evaluated: may this pod open a connection to that one?

The semantics are those of the Kubernetes documentation of networking.k8s.io/v1. A pod that no
policy selects in a direction is open in it; one that some policy selects takes only what some
rule of those policies allows; a connection needs both its egress and its ingress.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A pod, or with no namespace something outside the cluster."""

    name: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ip: str = "10.244.0.9"
    ports: Mapping[str, int] = field(default_factory=dict)
    """Named container ports."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Beside kubernetes.io/metadata.name, which every namespace has."""

    @property
    def all_namespace_labels(self) -> dict[str, str]:
        """Labels of its namespace."""
        own = {"kubernetes.io/metadata.name": self.namespace or ""}
        return own | dict(self.namespace_labels)


def allowed(
    policies: Sequence[Policy],
    source: Peer,
    destination: Peer,
    port: int | str,
    protocol: str = "TCP",
) -> bool:
    """Whether `source` may connect to `port` (number, or name on the destination) of another."""
    number = destination.ports[port] if isinstance(port, str) else port
    return all(
        _open(policies, direction, inside, outside, destination, number, protocol)
        for direction, inside, outside in (
            ("Egress", source, destination),
            ("Ingress", destination, source),
        )
    )


def _open(
    policies: Iterable[Policy],
    direction: str,
    inside: Peer,
    outside: Peer,
    destination: Peer,
    number: int,
    protocol: str,
) -> bool:
    mine = [policy for policy in policies if _selects(policy, direction, inside)]
    rules = [rule for policy in mine for rule in policy["spec"].get(direction.lower()) or ()]
    peers = "to" if direction == "Egress" else "from"
    return not mine or any(
        _has_peer(rule.get(peers), outside, inside.namespace)
        and _has_port(rule.get("ports"), destination, number, protocol)
        for rule in rules
    )


def _selects(policy: Policy, direction: str, pod: Peer) -> bool:
    spec = policy["spec"]
    # Left out, policyTypes is Ingress, and Egress too where the policy has egress rules.
    types = spec.get("policyTypes") or (["Ingress"] + (["Egress"] if spec.get("egress") else []))
    return (
        pod.namespace is not None
        and pod.namespace == policy["metadata"]["namespace"]
        and direction in types
        and matches(spec.get("podSelector") or {}, pod.labels)
    )


def _has_peer(peers: Sequence[Mapping[str, Any]] | None, other: Peer, home: str | None) -> bool:
    """No peers at all is every peer; pod selectors alone mean the policy's own namespace."""
    return not peers or any(_is_peer(peer, other, home) for peer in peers)


def _is_peer(peer: Mapping[str, Any], other: Peer, home: str | None) -> bool:
    if "ipBlock" in peer:
        return _in_block(peer["ipBlock"], other.ip)
    if other.namespace is None:
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], other.all_namespace_labels):
            return False
    elif other.namespace != home:
        return False
    return matches(peer.get("podSelector") or {}, other.labels)


def _in_block(block: Mapping[str, Any], ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    return address in ipaddress.ip_network(block["cidr"]) and not any(
        address in ipaddress.ip_network(one) for one in block.get("except") or ()
    )


def _has_port(
    ports: Sequence[Mapping[str, Any]] | None, destination: Peer, number: int, protocol: str
) -> bool:
    return not ports or any(_is_port(port, destination, number, protocol) for port in ports)


def _is_port(port: Mapping[str, Any], destination: Peer, number: int, protocol: str) -> bool:
    if port.get("protocol", "TCP") != protocol:
        return False
    first = port.get("port")
    if first is None:
        return True
    if isinstance(first, str):
        return destination.ports.get(first, -1) == number
    return int(first) <= number <= int(port.get("endPort", first))


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all."""
    exact = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in exact.items()) and all(
        _holds(one, labels) for one in selector.get("matchExpressions") or ()
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(
        f"operator = {expression['operator']}, must be In, NotIn, Exists, DoesNotExist"
    )
