"""Rounds of the controller on a cluster in memory."""

from collections.abc import Mapping

import pytest
from prometheus_client import generate_latest

from neuronfleet.serving.controller.source import Reading
from tests.controller_world import START, Controlled, World, fleet_body, stamp, started, variant


async def test_a_new_fleet_gets_its_minimum_and_becomes_ready() -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)

    await controlled.turn(0)
    first = controlled.condition("Ready")
    await controlled.turns(60)

    assert first["status"] == "False"
    assert list(world.replicas().values()) == [1]
    assert controlled.condition("Ready")["status"] == "True"
    assert controlled.status()["serving"] == 1
    assert controlled.condition("MetricsAvailable")["reason"] == "Found"


async def test_load_grows_a_fleet_and_its_absence_shrinks_it_again() -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)

    world.spread(9.0)
    await controlled.turns(60)
    grown = len(world.serving())
    world.spread(1.0)
    await controlled.turns(300)

    assert grown == 4
    assert list(world.replicas().values()) == [1]
    assert len(world.serving()) == 1


async def test_a_restarted_controller_holds_the_scale_that_it_finds() -> None:
    world = World()
    await started(world)
    before = world.replicas()
    world.log.clear()
    world.spread(0.0)

    again = Controlled(world)
    await again.turns(20)

    assert sum(before.values()) == 3
    assert world.replicas() == before
    assert [line for line in world.log if not line.startswith(("status", "annotate"))] == []


@pytest.mark.parametrize("source", ["away", "frozen", "empty"])
async def test_a_fleet_does_not_shrink_while_its_metrics_are_not_known(source: str) -> None:
    world = World()
    controlled = await started(world)
    before = world.replicas()

    world.source = source
    world.spread(0.0)
    await controlled.turns(400)

    assert world.replicas() == before
    reason = {"away": "SourceError", "frozen": "Stale", "empty": "Stale"}[source]
    assert controlled.condition("MetricsAvailable")["reason"] == reason
    assert controlled.condition("ScalingLimited")["reason"] == "MetricsUnknown"
    told = [e["message"] for e in world.events if e["reason"] == reason]
    assert len(told) == 1, "an event for the transition, and for nothing else"


async def test_the_series_of_a_deleted_pod_count_for_nothing() -> None:
    world = World()
    controlled = await started(world, load=1.0)
    ghosts = {"f-old-1": 4.0, "f-old-2": 4.0}
    asked = world.ask

    async def haunted() -> Mapping[str, Reading]:
        found = await asked()
        for reading in found.values():
            reading.in_flight.update(ghosts)
        return found

    controlled.loop._ask = haunted
    await controlled.turns(200)

    assert list(world.replicas().values()) == [1]


async def test_scale_in_takes_the_emptiest_first_and_marks_it_before_the_count_falls() -> None:
    world = World()
    controlled = await started(world, load=9.0)
    world.log.clear()

    world.spread(1.0)
    await controlled.turns(300)

    busy = next(iter(world.serving()))
    marked = [n for n, line in enumerate(world.log) if "pod-deletion-cost" in line]
    lowered = [n for n, line in enumerate(world.log) if line.startswith("apply Deployment")]
    assert marked
    assert min(marked) < min(lowered)
    assert all(busy not in world.log[n] for n in marked if "-1000000" in world.log[n])
    assert list(world.replicas().values()) == [1]


async def test_no_capacity_for_a_variant_is_told_and_the_next_variant_is_tried() -> None:
    world = World(capacity={"inf2": 1})
    variants = [variant(), variant("trn1", instanceType="trn1.2xlarge")]
    controlled = await started(world, variants=variants)

    found = controlled.condition("CapacityAvailable")
    by_variant = {v["name"]: v for v in controlled.status()["variants"]}

    assert found["status"] == "False"
    assert found["reason"] == "NoCapacity"
    assert "inf2" in found["message"]
    assert by_variant["inf2"]["serving"] == 1
    assert by_variant["trn1"]["serving"] == 2
    assert controlled.status()["serving"] == 3


async def test_a_variant_without_capacity_is_tried_again_later() -> None:
    world = World(capacity={"inf2": 1})
    controlled = await started(world)
    assert controlled.status()["serving"] == 1

    world.capacity.clear()
    await controlled.turns(300)

    assert controlled.status()["serving"] == 3
    assert controlled.condition("CapacityAvailable")["status"] == "True"


async def test_replicas_on_a_node_with_bad_neuron_health_are_replaced() -> None:
    world = World()
    controlled = await started(world)
    victim = world.serving()[0]
    sick = world.pods[victim].node or ""
    world.node(sick, health="NeuronHasError_HBM_UNCORRECTABLE_ERROR")

    await controlled.turn()
    await controlled.turns(60)

    assert victim not in world.pods
    assert len(world.serving()) == 3
    cordon, deletion = (
        world.log.index(line) for line in (f"cordon {sick}", f"delete pod {victim}")
    )
    assert cordon < deletion
    reasons = [e["reason"] for e in world.events]
    assert "ReplacingReplicas" in reasons
    assert controlled.condition("Degraded")["status"] == "False"


async def test_a_disruption_notice_is_drained_ahead() -> None:
    world = World(drain_s=60.0)
    controlled = await started(world)
    victim = world.serving()[0]
    world.node(world.pods[victim].node or "", taint="karpenter.sh/disrupted")

    await controlled.turn()
    await controlled.turns(40)

    assert world.pods[victim].dies_at_s is not None
    assert len(world.serving()) == 3, "its replacement serves while it drains"


async def test_a_node_that_does_not_answer_is_replaced_without_deleting_what_may_still_serve() -> (
    None
):
    world = World()
    controlled = await started(world)
    victim = world.serving()[0]
    world.node(world.pods[victim].node or "", ready=False)
    world.log.clear()

    await controlled.turns(60)

    assert list(world.replicas().values()) == [4]
    assert not any(line.startswith("delete") for line in world.log)
    assert controlled.condition("Degraded")["reason"] == "NodeNotReady"

    world.node(world.pods[victim].node or "", ready=True)
    await controlled.turns(300)
    assert list(world.replicas().values()) == [3]


async def test_nodes_that_are_silent_for_a_moment_change_nothing() -> None:
    world = World()
    controlled = await started(world)
    world.log.clear()
    for pod in world.pods.values():
        world.node(pod.node or "", ready=False)

    await controlled.turns(15)
    for pod in world.pods.values():
        world.node(pod.node or "", ready=True)
    await controlled.turns(30)

    assert list(world.replicas().values()) == [3]
    assert not any(line.startswith(("apply", "delete")) for line in world.log)


async def test_a_replica_is_not_replaced_for_what_its_silent_node_did_not_ask_it() -> None:
    world = World()
    controlled = await started(world, load=1.0)
    (only,) = world.serving()
    world.pods[only].broken = "canary"
    world.node(world.pods[only].node or "", ready=False)
    await controlled.turns(15)
    # The kubelet is heard again; its first canary is still to come.
    world.node(world.pods[only].node or "", ready=True)
    await controlled.turns(15)
    world.pods[only].broken = None
    await controlled.turns(60)

    assert world.serving() == [only]
    assert not any(line.startswith("delete") for line in world.log)


async def test_the_only_replica_on_a_cordoned_node_is_replaced_before_it_goes() -> None:
    world = World()
    controlled = await started(world, load=1.0)
    only = world.serving()[0]
    world.node(world.pods[only].node or "", cordoned=True)

    await controlled.turns(60)

    assert list(world.replicas().values()) == [2]
    assert len(world.serving()) == 2


async def test_a_replica_whose_canary_fails_is_replaced() -> None:
    world = World()
    controlled = await started(world)
    victim = world.serving()[0]
    world.pods[victim].broken = "canary"

    await controlled.turns(90)

    assert victim not in world.pods
    assert len(world.serving()) == 3


async def test_capacity_of_a_reservation_is_left_ahead_of_its_end() -> None:
    world = World(drain_s=20.0)
    ends = stamp(START + 400)
    block = variant(
        "block", capacityType="capacity-block", reservation={"id": "cr-1", "endsAt": ends}
    )
    block["instanceType"] = "trn1.2xlarge"
    controlled = await started(world, variants=[block, variant(instanceType="inf2.8xlarge")])
    before = {v["name"]: v["serving"] for v in controlled.status()["variants"]}

    await controlled.turns(400 - 210 - 61)

    after = {v["name"]: v["serving"] for v in controlled.status()["variants"]}
    assert sum(before.values()) == 3
    assert after == {"block": 0, "inf2": 3}
    assert controlled.condition("CapacityAvailable")["reason"] == "ReservationEnding"


async def test_pins_that_clash_make_no_pod_and_name_the_pair() -> None:
    world = World()
    world.fleets["f"] = fleet_body(variants=[variant(pins={"sdk": "2.30.0"})])
    controlled = Controlled(world)

    await controlled.turns(60)

    degraded = controlled.condition("Degraded")
    assert degraded["reason"] == "VariantBlocked"
    assert "2.30" in degraded["message"]
    assert world.pods == {}


async def test_a_deleted_fleet_is_forgotten() -> None:
    world = World()
    controlled = await started(world)

    del world.fleets["f"]
    await controlled.turn()

    assert controlled.gatherer.memories == {}
    assert b'fleet="serving.f"' not in generate_latest(controlled.exporter.registry)


async def test_a_steady_fleet_costs_no_call() -> None:
    world = World()
    controlled = await started(world)
    await controlled.turns(300)
    world.log.clear()

    await controlled.turns(60)

    assert world.log == []
