"""Who may reach a fleet's replicas, and whom they may reach."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.model import SourceKind
from neuronfleet.serving.controller.workloads import names
from neuronfleet.serving.controller.workloads.names import Manifest
from neuronfleet.serving.controller.workloads.pod import PORT_NAME
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings
from neuronfleet.serving.controller.workloads.weights import REMOTE

_NODE_LOCAL_DNS = "169.254.20.10/32"
_POD_IDENTITY = ("169.254.170.23/32", "fd00:ec2::23/128")
"""Where the EKS Pod Identity agent gives out credentials, port 80."""


def network_policies(
    fleet: ServingFleet, *, namespace: str, owner: Mapping[str, Any], settings: WorkloadSettings
) -> list[Manifest]:
    """One policy over all replicas of a fleet, both ways.

    In: the gateway and Prometheus, on the replica's one port. Out: names, and the weights where
    they lie elsewhere, on 443 beyond private ranges. The API server is not among it.
    """
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": names.metadata(fleet.name, namespace, owner, names.fleet_labels(fleet)),
            "spec": {
                "podSelector": {"matchLabels": names.fleet_labels(fleet)},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [_ingress(settings)],
                "egress": [_names(settings), *_weights(fleet, settings)],
            },
        }
    ]


def _ingress(settings: WorkloadSettings) -> dict[str, Any]:
    peers = [_pods(settings.gateway_namespace, settings.gateway_labels)]
    if settings.monitoring_namespace is not None:
        peers.append(_pods(settings.monitoring_namespace, settings.monitoring_labels))
    return {"from": peers, "ports": [{"port": PORT_NAME, "protocol": "TCP"}]}


def _pods(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Pods of one namespace: both selectors in one peer, since two peers would mean either."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(labels)},
    }


def _names(settings: WorkloadSettings) -> dict[str, Any]:
    servers = [
        _pods(settings.dns_namespace, settings.dns_labels),
        {"ipBlock": {"cidr": _NODE_LOCAL_DNS}},
    ]
    return {
        "to": servers,
        "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
    }


def _weights(fleet: ServingFleet, settings: WorkloadSettings) -> list[dict[str, Any]]:
    if fleet.model.source.kind not in REMOTE:
        return []
    blocks = [_block(cidr, settings) for cidr in settings.weights_cidrs]
    rules = [{"to": blocks, "ports": [{"port": 443, "protocol": "TCP"}]}]
    if fleet.model.source.kind is SourceKind.S3:
        agents = [{"ipBlock": {"cidr": cidr}} for cidr in _POD_IDENTITY]
        rules.append({"to": agents, "ports": [{"port": 80, "protocol": "TCP"}]})
    return rules


def _block(cidr: str, settings: WorkloadSettings) -> dict[str, Any]:
    """The range, less the private ones in it; one that is itself private is meant so."""
    whole = ipaddress.ip_network(cidr)
    inside = [
        one for one in settings.private_cidrs if _strictly_within(ipaddress.ip_network(one), whole)
    ]
    return {"ipBlock": {"cidr": cidr} | ({"except": inside} if inside else {})}


def _strictly_within(
    part: ipaddress.IPv4Network | ipaddress.IPv6Network,
    whole: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> bool:
    if isinstance(part, ipaddress.IPv4Network) and isinstance(whole, ipaddress.IPv4Network):
        return part != whole and part.subnet_of(whole)
    if isinstance(part, ipaddress.IPv6Network) and isinstance(whole, ipaddress.IPv6Network):
        return part != whole and part.subnet_of(whole)
    return False
