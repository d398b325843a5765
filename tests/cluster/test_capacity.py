"""Nodes by the real Karpenter: brought by type, zone and capacity type, left ahead, given back."""

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
    stack.cluster.kubectl("delete", "sf", "--all", "-n", stack.fleets, "--wait=false")
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


def test_pending_replicas_get_nodes_of_their_type_zone_and_capacity_type(stack: Stack) -> None:
    fleet(stack, "fit", 2, variant(capacityType="spot", instanceType="trn1.2xlarge"))

    stack.await_serving("fit", 2, 90)

    for labels in nodes_of(stack, "fit"):
        assert labels["node.kubernetes.io/instance-type"] == "trn1.2xlarge"
        assert labels["topology.kubernetes.io/zone"] == "us-east-2b"
        assert labels["karpenter.sh/capacity-type"] == "spot"
    assert stack.condition("fit", "CapacityAvailable")["status"] == "True"


def test_the_next_zone_takes_what_a_withdrawn_offering_cannot(stack: Stack) -> None:
    karpenter.withdraw(stack.cluster.machine, Offer(instance_type="inf2.xlarge", zone="us-east-2b"))
    fleet(stack, "zone", 1, variant(zones=["us-east-2b", "us-east-2c"]))

    stack.await_serving("zone", 1, 90)

    (labels,) = nodes_of(stack, "zone")
    assert labels["topology.kubernetes.io/zone"] == "us-east-2c"


def test_the_next_variant_takes_what_a_withdrawn_type_cannot_and_it_is_told(stack: Stack) -> None:
    karpenter.withdraw(stack.cluster.machine, Offer(instance_type="inf2.xlarge"))
    fleet(stack, "next", 1, variant(), variant("trn1", instanceType="trn1.2xlarge"))

    found = stack.await_condition("next", "CapacityAvailable", "False", "NoCapacity", 90)
    stack.cluster.wait_for(lambda: len(stack.serving("next")) == 1, "the other variant", 90)

    assert "inf2" in found["message"]
    (labels,) = nodes_of(stack, "next")
    assert labels["node.kubernetes.io/instance-type"] == "trn1.2xlarge"
    assert "NoCapacity" in stack.events("next")


def test_a_limit_reached_is_told_and_a_limit_lifted_is_used(stack: Stack) -> None:
    karpenter.apply_pool(stack.cluster.machine, karpenter.pool(limits={NEURON: "1"}))
    fleet(stack, "limit", 2, variant())

    stack.await_condition("limit", "CapacityAvailable", "False", "NoCapacity", 90)
    assert len(stack.serving("limit")) == 1

    karpenter.apply_pool(stack.cluster.machine)
    stack.await_serving("limit", 2, 150)
    stack.await_condition("limit", "CapacityAvailable", "True", timeout=90)


def test_a_disruption_notice_is_drained_ahead_and_replaced(stack: Stack) -> None:
    fleet(stack, "spot", 2, variant(capacityType="spot"))
    stack.await_serving("spot", 2, 90)
    victim = stack.pods("spot")[0]

    karpenter.spot_notice(stack.cluster.machine, victim["spec"]["nodeName"])

    name = victim["metadata"]["name"]
    stack.cluster.wait_for(
        lambda: name not in [p["metadata"]["name"] for p in stack.pods("spot")], "its end", 60
    )
    stack.await_serving("spot", 2, 90)
    assert "ReplacingReplicas" in stack.events("spot")


def test_a_reservation_is_left_before_it_ends(stack: Stack) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=130)
    block = variant(
        "block",
        capacityType="reserved",
        reservation={"id": "cr-0123456789abcdef0", "endsAt": ends.strftime("%Y-%m-%dT%H:%M:%SZ")},
        podTemplate={},
    )
    fleet(stack, "ends", 1, block, variant("own", instanceType="trn1.2xlarge"))

    found = stack.await_condition("ends", "CapacityAvailable", "False", "ReservationEnding", 120)
    stack.cluster.wait_for(
        lambda: [
            labels["node.kubernetes.io/instance-type"] for labels in nodes_of(stack, "ends")
        ] == ["trn1.2xlarge"],
        "its replicas elsewhere",
        100,
    )  # fmt: skip

    assert datetime.now(UTC) < ends
    assert "cr-0123456789abcdef0" in found["message"]


def test_consolidation_takes_no_replica_that_boots_or_serves_and_every_empty_node(
    stack: Stack,
) -> None:
    fleet(stack, "pack", 3, variant())
    stack.await_serving("pack", 3, 90)
    before = set(stack.serving("pack"))

    packed = karpenter.pool(consolidate_after="1s", consolidation_policy="WhenEmptyOrUnderutilized")
    karpenter.apply_pool(stack.cluster.machine, packed)
    stack.cluster.kubectl("scale", "sf/pack", "-n", stack.fleets, "--replicas=2")
    stack.cluster.wait_for(lambda: len(stack.pods("pack")) == 2, "a smaller fleet", 60)
    stack.cluster.wait_for(
        lambda: len(stack.cluster.get("nodeclaims")["items"]) == 2, "the empty node's end", 90
    )

    assert set(stack.serving("pack")) < before, "what serves was left where it was"
