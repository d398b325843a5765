from typing import Any

from neuronfleet.serving.controller.gateway.facts import (
    ClusterFacts,
    FleetFact,
    PodFact,
    ReplicaFact,
    fleet_fact,
    pod_facts,
    replica_facts,
)
from neuronfleet.serving.controller.gateway.wanted import wanted
from neuronfleet.serving.gateway.claims import ReplicaWanted


def endpoint_slice(**changes: Any) -> dict[str, Any]:
    labels = {"neuronfleet.dev/fleet": "llama", "neuronfleet.dev/ceiling": "33"}
    ready = {"ready": True, "serving": True, "terminating": False}
    leaving = {"ready": False, "serving": True, "terminating": True}
    return {
        "metadata": {"namespace": "ml", "name": "llama-1", "labels": labels},
        "ports": [{"name": "metrics", "port": 9}, {"name": "http", "port": 8000}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": ready, "targetRef": {"name": "p1"}},
            {"addresses": ["10.0.0.2"], "conditions": leaving, "targetRef": {"name": "p2"}},
            {"addresses": ["10.0.0.3"], "conditions": ready},
        ],
    } | changes


def fleet(key: str, model: str, created: str = "2026-01-01T00:00:00Z") -> FleetFact:
    return FleetFact(key=key, model=model, queue_s=60.0, created=created)


def test_a_slice_says_addresses_readiness_and_ceiling() -> None:
    first, second = replica_facts(endpoint_slice())

    assert first == ReplicaFact(
        fleet="ml.llama",
        pod="p1",
        host="10.0.0.1",
        port=8000,
        ceiling=33,
        ready=True,
        terminating=False,
    )
    assert (second.pod, second.ready, second.terminating) == ("p2", False, True)


def test_a_slice_without_a_usable_ceiling_or_port_says_nothing() -> None:
    labels = {"neuronfleet.dev/fleet": "llama"}
    for wrong in ("0", "-1", "many", "1000000", "٣"):
        given = {"namespace": "ml", "labels": labels | {"neuronfleet.dev/ceiling": wrong}}
        assert replica_facts(endpoint_slice(metadata=given)) == []
    assert replica_facts(endpoint_slice(ports=[])) == []
    assert replica_facts(endpoint_slice(endpoints=None)) == []


def test_the_gateways_own_slices_say_its_pods() -> None:
    assert pod_facts(endpoint_slice()) == [
        PodFact(pod="p1", host="10.0.0.1"),
        PodFact(pod="p2", host="10.0.0.2"),
    ]


def test_a_fleet_says_its_model_and_deadline_and_one_that_goes_says_nothing() -> None:
    metadata = {"namespace": "ml", "name": "llama", "creationTimestamp": "2026-01-02T00:00:00Z"}
    spec = {"model": {"name": "m1"}, "queue": {"timeout": "1m30s"}}

    found = fleet_fact({"metadata": metadata, "spec": spec})

    assert found == FleetFact(
        key="ml.llama", model="m1", queue_s=90.0, created="2026-01-02T00:00:00Z"
    )
    assert fleet_fact({"metadata": metadata | {"deletionTimestamp": "x"}, "spec": spec}) is None
    assert fleet_fact({"metadata": metadata, "spec": {}}) is None
    default = fleet_fact({"metadata": metadata, "spec": {"model": {"name": "m1"}}})
    assert default is not None
    assert default.queue_s == 60.0


def test_the_older_of_two_fleets_keeps_a_model_that_both_claim() -> None:
    older = fleet("z.older", "m1", "2026-01-01T00:00:00Z")
    younger = fleet("a.younger", "m1", "2026-02-01T00:00:00Z")

    found = wanted(ClusterFacts(fleets=(younger, older)), most_fleets=10)

    assert list(found.fleets) == ["z.older"]
    assert found.refused == {"a.younger": "model m1 belongs to the older fleet z.older"}


def test_a_fleet_that_cannot_be_served_is_refused_with_the_reason() -> None:
    fleets = (fleet("ml.a", "two words"), fleet("ml.b", "m1"), fleet("ml.c", "m2"))

    found = wanted(ClusterFacts(fleets=fleets), most_fleets=1)

    assert list(found.fleets) == ["ml.b"]
    assert found.refused["ml.a"].startswith("spec.model.name = two words, must be")
    assert found.refused["ml.c"] == "the gateway serves mostFleets = 1 fleets already"


def test_replicas_serve_while_they_are_ready_and_do_not_terminate() -> None:
    facts = ClusterFacts(replicas=tuple(replica_facts(endpoint_slice())))

    replicas = wanted(facts, most_fleets=1).replicas["ml.llama"]

    assert replicas["p1"] == ReplicaWanted(host="10.0.0.1", port=8000, ceiling=33, serve=True)
    assert not replicas["p2"].serve
