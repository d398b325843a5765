"""How many replicas an eviction may take."""

from collections.abc import Mapping
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.controller.workloads import names
from neuronfleet.serving.controller.workloads.names import Manifest

_AT_ONCE = "2%"
"""Rounded up by Kubernetes: one of up to 50 replicas, 20 of 1,000. Below the spare slots that law
3 staffs: at L = 4,800, beta * sqrt(L) is 2.4 % of L."""


def disruption_budget(
    fleet: ServingFleet, *, namespace: str, owner: Mapping[str, Any], serving: int
) -> Manifest:
    """The budget over all replicas of a fleet that is meant to have `serving` of them.

    Two or more: one at a time may go (2 % of large fleets), its load fits on the others. One: it
    goes only when another serves, which the controller starts as soon as the node is cordoned.
    Replicas that do not serve hold nothing and may always go.
    """
    allowed: dict[str, Any] = {"maxUnavailable": _AT_ONCE} if serving > 1 else {"minAvailable": 1}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.metadata(fleet.name, namespace, owner, names.fleet_labels(fleet)),
        "spec": {
            **allowed,
            "selector": {"matchLabels": names.fleet_labels(fleet)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
