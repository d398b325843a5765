"""Nodes by the real Karpenter: brought by type, zone and capacity type, left ahead, given back."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cluster import karpenter
from tests.cluster.offers import Offer
from tests.cluster.stack import Stack

pytestmark = pytest.mark.cluster

NEURON = "aws.amazon.com/neuron"


@pytest.fixture(autouse=True)
def _own_nodes(stack: Stack) -> Iterator[None]:
    if why := stack.cluster.lacks("karpenter", "local"):
        pytest.skip(why)
    yield
    stack.cluster.kubectl("delete", "sf", "--all", "-n", stack.models, "--wait=false")
    karpenter.withdraw(stack.cluster.machine)
    karpenter.apply_pool(stack.cluster.machine)
    karpenter.clear(stack.cluster.machine)


def variant(name: str = "inf2", **more: Any) -> dict[str, Any]:
    """A variant that may run on any node that fits, but for the one real node."""
    base = {
        "name": name,
        "instanceType": "inf2.xlarge",
        "backendGeneration": 1,
        "tensorParallelDegree": 2,
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
        "zones": ["us-east-2b"],
    }
    return base | more


def fleet(stack: Stack, name: str, count: int, *variants: dict[str, Any]) -> None:
    stack.apply(
        stack.fleet(
            name, scaling=None, replicas=count, variants=list(variants), drain={"timeout": "5s"}
        )
    )


def nodes_of(stack: Stack, name: str) -> list[dict[str, str]]:
    """Labels of the nodes that a fleet's ready pods are on."""
    names = [
        pod["spec"]["nodeName"]
        for pod in stack.pods(name)
        if pod["metadata"]["name"] in stack.serving(name)
    ]
    return [stack.cluster.get("node", one)["metadata"]["labels"] for one in names]


def test_pending_replicas_get_nodes_of_their_type_zone_and_capacity_type(fleets: Stack) -> None:
    fleet(fleets, "fit", 2, variant(capacityType="spot", instanceType="trn1.2xlarge"))

    fleets.await_serving("fit", 2, 90)

    for labels in nodes_of(fleets, "fit"):
        assert labels["node.kubernetes.io/instance-type"] == "trn1.2xlarge"
        assert labels["topology.kubernetes.io/zone"] == "us-east-2b"
        assert labels["karpenter.sh/capacity-type"] == "spot"
    assert fleets.condition("fit", "CapacityAvailable")["status"] == "True"


def test_the_next_zone_takes_what_a_withdrawn_offering_cannot(fleets: Stack) -> None:
    karpenter.withdraw(
        fleets.cluster.machine, Offer(instance_type="inf2.xlarge", zone="us-east-2b")
    )
    fleet(fleets, "zone", 1, variant(zones=["us-east-2b", "us-east-2c"]))

    fleets.await_serving("zone", 1, 90)

    (labels,) = nodes_of(fleets, "zone")
    assert labels["topology.kubernetes.io/zone"] == "us-east-2c"


def test_the_next_variant_takes_what_a_withdrawn_type_cannot_and_it_is_told(fleets: Stack) -> None:
    karpenter.withdraw(fleets.cluster.machine, Offer(instance_type="inf2.xlarge"))
    fleet(fleets, "next", 1, variant(), variant("trn1", instanceType="trn1.2xlarge"))

    found = fleets.await_condition("next", "CapacityAvailable", "False", "NoCapacity", 90)
    fleets.cluster.wait_for(lambda: len(fleets.serving("next")) == 1, "the other variant", 90)

    assert "inf2" in found["message"]
    (labels,) = nodes_of(fleets, "next")
    assert labels["node.kubernetes.io/instance-type"] == "trn1.2xlarge"
    assert "NoCapacity" in fleets.events("next")


def test_a_limit_reached_is_told_and_a_limit_lifted_is_used(fleets: Stack) -> None:
    karpenter.apply_pool(fleets.cluster.machine, karpenter.pool(limits={NEURON: "1"}))
    fleet(fleets, "limit", 2, variant())

    fleets.await_condition("limit", "CapacityAvailable", "False", "NoCapacity", 90)
    assert len(fleets.serving("limit")) == 1

    karpenter.apply_pool(fleets.cluster.machine)
    fleets.await_serving("limit", 2, 150)
    fleets.await_condition("limit", "CapacityAvailable", "True", timeout=90)


def test_a_disruption_notice_is_drained_ahead_and_replaced(fleets: Stack) -> None:
    fleet(fleets, "spot", 2, variant(capacityType="spot"))
    fleets.await_serving("spot", 2, 90)
    victim = fleets.pods("spot")[0]

    karpenter.spot_notice(fleets.cluster.machine, victim["spec"]["nodeName"])

    name = victim["metadata"]["name"]
    fleets.cluster.wait_for(
        lambda: name not in [p["metadata"]["name"] for p in fleets.pods("spot")], "its end", 60
    )
    fleets.await_serving("spot", 2, 90)
    assert "ReplacingReplicas" in fleets.events("spot")


def test_replicas_leave_a_node_whose_devices_fail(fleets: Stack) -> None:
    fleet(fleets, "sick", 2, variant())
    fleets.await_serving("sick", 2, 90)
    victim = fleets.pods("sick")[0]
    node, name = victim["spec"]["nodeName"], victim["metadata"]["name"]

    condition = {
        "type": "NeuronHealth",
        "status": "True",
        "reason": "NeuronHasError_HBM_UNCORRECTABLE_ERROR",
    }
    change = json.dumps({"status": {"conditions": [condition]}})
    fleets.cluster.kubectl("patch", "node", node, "--subresource=status", "-p", change)
    fleets.cluster.wait_for(
        lambda: name not in [p["metadata"]["name"] for p in fleets.pods("sick")], "its end", 60
    )
    fleets.await_serving("sick", 2, 90)

    assert node not in [pod["spec"].get("nodeName") for pod in fleets.pods("sick")]
    assert "ReplacingReplicas" in fleets.events("sick")


@pytest.mark.parametrize("count", [1, 2])
def test_a_drained_node_is_left_when_another_replica_serves(fleets: Stack, count: int) -> None:
    name = f"drain{count}"
    fleet(fleets, name, count, variant())
    fleets.await_serving(name, count, 90)
    node = fleets.pods(name)[0]["spec"]["nodeName"]
    fewest = [count]

    def watched() -> bool:
        fewest.append(len(fleets.serving(name)))
        return node not in [pod["spec"].get("nodeName") for pod in fleets.pods(name)]

    drain = threading.Thread(
        target=fleets.cluster.kubectl,
        args=("drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=90s"),
    )
    drain.start()
    fleets.cluster.wait_for(watched, "an empty node", 90)
    drain.join()
    fleets.await_serving(name, count, 90)

    assert min(fewest) >= 1, "a fleet's only replica waits for its successor"


def test_a_reservation_is_left_before_it_ends(fleets: Stack) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=130)
    block = variant(
        "block",
        capacityType="reserved",
        reservation={"id": "cr-0123456789abcdef0", "endsAt": ends.strftime("%Y-%m-%dT%H:%M:%SZ")},
        podTemplate={},
    )
    fleet(fleets, "ends", 1, block, variant("own", instanceType="trn1.2xlarge"))

    found = fleets.await_condition("ends", "CapacityAvailable", "False", "ReservationEnding", 120)
    fleets.cluster.wait_for(
        lambda: [
            labels["node.kubernetes.io/instance-type"] for labels in nodes_of(fleets, "ends")
        ] == ["trn1.2xlarge"],
        "its replicas elsewhere",
        100,
    )  # fmt: skip

    assert datetime.now(UTC) < ends
    assert "cr-0123456789abcdef0" in found["message"]


def test_consolidation_takes_no_replica_that_boots_or_serves_and_every_empty_node(
    fleets: Stack,
) -> None:
    fleet(fleets, "pack", 3, variant())
    fleets.await_serving("pack", 3, 90)
    before = set(fleets.serving("pack"))

    packed = karpenter.pool(consolidate_after="1s", consolidation_policy="WhenEmptyOrUnderutilized")
    karpenter.apply_pool(fleets.cluster.machine, packed)
    fleets.cluster.kubectl("scale", "sf/pack", "-n", fleets.models, "--replicas=2")
    fleets.cluster.wait_for(lambda: len(fleets.pods("pack")) == 2, "a smaller fleet", 60)
    fleets.cluster.wait_for(
        lambda: len(fleets.cluster.get("nodeclaims")["items"]) == 2, "the empty node's end", 90
    )

    assert set(fleets.serving("pack")) < before, "what serves was left where it was"
