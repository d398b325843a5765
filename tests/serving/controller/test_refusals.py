"""What is refused, cannot be read or fails is told, and stops nothing else."""

from typing import Any

import pytest

from neuronfleet.serving.controller.acts import Act, Apply
from neuronfleet.serving.controller.kube import KubeError
from tests.controller_world import Controlled, World, fleet_body, stamp, started


async def test_a_spec_that_cannot_be_read_is_told_and_changes_nothing() -> None:
    world = World()
    controlled = await started(world)
    before = world.replicas()
    world.fleets["f"]["spec"]["drain"] = {"timeout": "nonsense"}
    world.fleets["f"]["metadata"]["generation"] = 2

    await controlled.turns(60)

    degraded = controlled.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "InvalidSpec")
    assert "spec.drain.timeout = nonsense" in degraded["message"]
    assert world.replicas() == before
    assert controlled.status()["observedGeneration"] == 2
    assert controlled.condition("Ready")["status"] == "Unknown"


async def test_a_refused_write_is_made_again_the_next_time_round() -> None:
    world = World()
    controlled = await started(world)
    world.failing = [500]
    world.spread(14.0)

    await controlled.turn()
    await controlled.turn()

    assert list(world.replicas().values()) == [4]
    errors = controlled.exporter.registry.get_sample_value(
        "neuronfleet_controller_reconcile_errors_total", {"step": "scale"}
    )
    assert errors == 1


class RefusingWorld(World):
    """Its API server refuses to have objects of a kind applied while `status` is set."""

    def __init__(self, kind: str, status: int) -> None:
        super().__init__()
        self.kind, self.status = kind, status

    async def perform(self, namespace: str, act: Act) -> None:
        if self.status and isinstance(act, Apply) and act.manifest["kind"] == self.kind:
            raise KubeError(f"{self.kind}: denied by a webhook", self.status)
        await World.perform(self, namespace, act)


async def test_no_replica_is_begun_without_the_policies_around_it() -> None:
    world = RefusingWorld("NetworkPolicy", 403)
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)

    assert world.replicas() == {}
    degraded = controlled.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "ApplyRefused")
    assert "denied by a webhook" in degraded["message"]

    world.status = 0
    await controlled.turns(60)
    assert controlled.condition("Degraded")["status"] == "False"
    assert len(world.serving()) == 1


async def test_a_refused_policy_does_not_keep_a_fleet_from_growing() -> None:
    world = RefusingWorld("PodDisruptionBudget", 0)
    controlled = await started(world, load=1.0)

    world.status = 403
    world.spread(6.0)
    await controlled.turns(90)

    assert len(world.serving()) >= 3
    assert controlled.condition("Degraded")["reason"] == "ApplyRefused"


class WatchedWorld(World):
    """Notes of each manifest applied whether it was known as ours."""

    def __init__(self) -> None:
        super().__init__()
        self.ours: dict[str, list[bool]] = {}

    async def perform(self, namespace: str, act: Act) -> None:
        if isinstance(act, Apply):
            self.ours.setdefault(act.manifest["kind"], []).append(act.ours)
        await World.perform(self, namespace, act)


async def test_an_object_of_ours_is_taken_back_and_a_stranger_s_is_not() -> None:
    world = WatchedWorld()
    await started(world, load=9.0)

    assert world.ours["Service"] == [False]
    first, *later = world.ours["Deployment"]
    assert not first
    assert later
    assert all(later)


async def test_a_fleet_that_cannot_be_judged_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    controlled = await started(world)
    world.fleets["g"] = fleet_body("g")
    view = controlled.gatherer.view

    def failing(record: Any, now: float) -> Any:
        if record.name == "f":
            raise ZeroDivisionError
        return view(record, now)

    monkeypatch.setattr(controlled.gatherer, "view", failing)
    await controlled.turns(60)

    assert controlled.condition("Ready", "g")["status"] == "True"
    registry = controlled.exporter.registry
    errors = registry.get_sample_value(
        "neuronfleet_controller_reconcile_errors_total", {"step": "judge"}
    )
    assert errors is not None
    assert errors >= 12


async def test_the_older_of_two_fleets_has_the_model_and_the_younger_is_not_staffed() -> None:
    world = World()
    controlled = await started(world)
    world.fleets["g"] = fleet_body("g")
    world.fleets["g"]["metadata"]["creationTimestamp"] = stamp(world.now)
    world.fleets["g"]["spec"]["model"] = world.fleets["f"]["spec"]["model"]

    await controlled.turns(60)

    degraded = controlled.condition("Degraded", "g")
    assert degraded["reason"] == "ModelTaken"
    assert "serving.f" in degraded["message"]
    assert all(name.startswith("f-") for name in world.replicas())

    del world.fleets["f"]
    await controlled.turns(90)
    assert controlled.condition("Ready", "g")["status"] == "True"
