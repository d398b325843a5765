"""The controller is killed after any step of a reconcile: another one converges, nothing twice."""

from typing import Any

import pytest

from neuronfleet.serving.controller.steps import STEPS
from tests.controller_world import Controlled, World, fleet_body, variant

EVERY_STEP = [*(name for name, _ in STEPS), "status"]


class KilledError(BaseException):
    """Stands for the process's end: no handler of errors sees it."""


def killed_after(step: str, times: int = 1) -> Any:
    """A hook that ends the controller after the step, the first `times` times it is reached."""
    left = [times]

    async def hook(key: str, name: str) -> None:
        if name == step and left[0]:
            left[0] -= 1
            raise KilledError(step)

    return hook


async def through(world: World, step: str, seconds: float) -> Controlled:
    """Rounds of a controller that dies after `step`, and then of its successor."""
    controlled = Controlled(world, after_step=killed_after(step))
    for _ in range(round(seconds / 5)):
        try:
            await controlled.turn()
        except KilledError:
            controlled = Controlled(world)
    return controlled


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_fleet_is_created_once(step: str) -> None:
    world = World()
    world.fleets["f"] = fleet_body()

    controlled = await through(world, step, 90)

    assert list(world.replicas().values()) == [1]
    assert next(world.numbers) == 1, "one pod was ever made"
    assert controlled.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_fleet_grows_by_what_was_decided_and_no_more(step: str) -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    await Controlled(world).turns(60)
    world.spread(6.0)

    controlled = await through(world, step, 150)

    assert list(world.replicas().values()) == [3]
    assert next(world.numbers) == 3, "three pods were ever made"
    assert controlled.status()["serving"] == 3


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_fleet_shrinks_to_what_was_decided_and_no_further(step: str) -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)
    world.spread(9.0)
    await controlled.turns(120)
    world.spread(3.0)
    fewest = 4

    controlled = Controlled(world, after_step=killed_after(step, times=3))
    for _ in range(120):
        try:
            await controlled.turn()
        except KilledError:
            controlled = Controlled(world, after_step=controlled.loop._after_step)
        fewest = min(fewest, len(world.serving()))

    assert fewest == 2
    assert list(world.replicas().values()) == [2]
    assert controlled.status()["serving"] == 2


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_rollout_goes_on_where_it_was(step: str) -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)
    world.spread(6.0)
    await controlled.turns(120)
    body = world.fleets["f"]
    body["spec"]["variants"] = [variant(image="gen1:2")]
    body["metadata"]["generation"] += 1
    fewest, before = 3, next(world.numbers)

    controlled = Controlled(world, after_step=killed_after(step, times=3))
    for _ in range(80):
        try:
            await controlled.turn()
        except KilledError:
            controlled = Controlled(world, after_step=controlled.loop._after_step)
        fewest = min(fewest, len(world.serving()))

    assert fewest == 3
    assert next(world.numbers) == before + 4, "three of the new revision were ever made"
    assert list(world.replicas().values()) == [3]


@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_replica_on_a_bad_node_is_deleted_once(step: str) -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)
    (victim,) = world.serving()
    world.node(world.pods[victim].node or "", health="NeuronHasError_DMA_ERROR")

    await through(world, step, 90)

    assert world.log.count(f"delete pod {victim}") == 1
    assert len(world.serving()) == 1
    assert next(world.numbers) == 2
