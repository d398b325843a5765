"""A change of revision: one replica warmed and asked its canary, then the rest, or back again."""

from typing import Any

import pytest

from tests.controller_world import Controlled, World, fleet_body, variant


async def serving(world: World, load: float = 9.0) -> Controlled:
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(60)
    world.spread(load)
    await controlled.turns(120)
    assert len(world.serving()) == 4
    return controlled


def change(world: World, **more: Any) -> None:
    """Another image, so another revision."""
    body = world.fleets["f"]
    body["spec"]["variants"] = [variant(**more)]
    body["metadata"]["generation"] += 1


def by_revision(world: World) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in world.serving():
        revision = world.pods[name].body["metadata"]["labels"]["neuronfleet.dev/revision"]
        found[revision] = found.get(revision, 0) + 1
    return found


async def test_one_replica_is_warmed_before_any_other_is_touched() -> None:
    world = World()
    controlled = await serving(world)
    old = world.replicas()

    change(world, image="gen1:2")
    await controlled.turns(20)

    replicas = world.replicas()
    assert {name: replicas[name] for name in old} == old
    assert sorted(replicas.values()) == [1, 4]
    assert controlled.status()["rollout"]["state"] == "Warming"
    assert controlled.condition("Progressing")["reason"] == "Warming"


async def test_a_rollout_never_serves_with_fewer_and_ends_with_the_new_revision_alone() -> None:
    world = World()
    controlled = await serving(world)
    (old,) = world.replicas()
    change(world, image="gen1:2")

    fewest, most = 99, 0
    for _ in range(80):
        await controlled.turn()
        fewest = min(fewest, len(world.serving()))
        most = max(most, sum(world.replicas().values()))

    (new,) = world.replicas()
    assert new != old
    assert fewest == 4
    assert most == 5
    assert controlled.status()["desired"] == 4
    assert ("Service", old) not in world.objects
    assert "rollout" not in controlled.status()
    assert controlled.condition("Progressing")["status"] == "False"


@pytest.mark.parametrize("broken", ["crash", "image"])
async def test_a_revision_that_fails_is_rolled_back_with_its_reason(broken: str) -> None:
    world = World()
    controlled = await serving(world)
    (old,) = world.replicas()
    change(world, image="gen1:bad")
    await controlled.turn()
    (new,) = set(world.replicas()) - {old}
    revision = new.rsplit("-", 1)[1]
    world.bad_revisions[revision] = broken
    for pod in world.pods.values():
        if pod.body["metadata"]["labels"]["neuronfleet.dev/revision"] == revision:
            pod.broken = broken

    await controlled.turns(240)

    degraded = controlled.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    assert revision in degraded["message"]
    assert world.replicas() == {old: 4, new: 0}
    assert len(world.serving()) == 4
    assert sum(e["reason"] == "RolledBack" for e in world.events) == 1


async def test_after_a_rollback_another_spec_rolls_out() -> None:
    world = World()
    controlled = await serving(world)
    change(world, image="gen1:bad")
    await controlled.turn()
    newest = max(world.replicas(), key=lambda name: world.replicas()[name] == 1)
    world.bad_revisions[newest.rsplit("-", 1)[1]] = "crash"
    for pod in world.pods.values():
        if pod.body["metadata"]["owner"] == newest:
            pod.broken = "crash"
    await controlled.turns(240)

    change(world, image="gen1:3")
    await controlled.turns(400)

    assert list(world.replicas().values()) == [4]
    assert controlled.condition("Degraded")["status"] == "False"


async def test_a_restart_is_a_rollout() -> None:
    world = World()
    controlled = await serving(world)
    (old,) = world.replicas()

    notes = {"neuronfleet.dev/restarted-at": "2026-12-01T10:00:00Z"}
    world.fleets["f"]["metadata"]["annotations"] = notes
    await controlled.turns(400)

    assert set(world.replicas()) != {old}
    assert list(world.replicas().values()) == [4]


async def test_growth_and_shrinking_go_on_during_a_rollout() -> None:
    world = World(boot_s=60.0)
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(120)
    world.spread(4.0)
    await controlled.turns(150)
    assert len(world.serving()) == 2

    change(world, image="gen1:2")
    await controlled.turns(20)
    world.spread(9.0)
    await controlled.turns(30)

    assert controlled.status()["rollout"]["state"] == "Warming"
    assert controlled.status()["desired"] == 4
    assert sorted(world.replicas().values()) == [1, 4]


async def test_a_variant_that_the_spec_drops_serves_until_the_others_do() -> None:
    world = World()
    controlled = await serving(world)
    (old,) = world.replicas()
    change(world, name="trn1", instanceType="trn1.2xlarge")

    await controlled.turn()
    held = world.replicas()[old]
    await controlled.turns(400)

    assert held == 4
    assert old not in world.replicas()
    assert list(world.replicas().values()) == [4]
    assert set(by_revision(world).values()) == {4}


async def test_a_rollback_holds_at_no_replica_and_the_old_revision_grows_again() -> None:
    world = World()
    controlled = await serving(world)
    (old,) = world.replicas()
    change(world, image="gen1:bad")
    await controlled.turn()
    (new,) = set(world.replicas()) - {old}
    world.bad_revisions[new.rsplit("-", 1)[1]] = "crash"
    for pod in world.pods.values():
        pod.broken = "crash" if pod.body["metadata"]["owner"] == new else None
    await controlled.turns(120)
    assert controlled.condition("Degraded")["reason"] == "RolledBack"

    bounds = {"minReplicas": 0, "maxReplicas": 4, "idleAfter": "60s"}
    world.fleets["f"]["spec"]["scaling"] = bounds
    world.fleets["f"]["metadata"]["generation"] += 1
    world.spread(0.0)
    await controlled.turns(300)
    at_rest = world.replicas()
    world.spread(6.0)
    await controlled.turns(150)

    assert at_rest == {old: 0, new: 0}
    assert world.replicas() == {old: 3, new: 0}
    assert controlled.condition("Degraded")["reason"] == "RolledBack"


async def test_a_new_revision_that_finds_no_node_waits_and_is_not_rolled_back() -> None:
    world = World(capacity={"inf2": 4})
    controlled = await serving(world)
    (old,) = world.replicas()
    change(world, image="gen1:2")

    await controlled.turns(300)
    waiting = dict(controlled.status()["rollout"])
    world.capacity.clear()
    await controlled.turns(300)

    assert waiting["state"] == "Warming"
    assert "Insufficient aws.amazon.com/neuron" in waiting["reason"]
    assert old not in world.replicas()
    assert list(world.replicas().values()) == [4]


async def test_a_third_revision_keeps_the_one_that_serves() -> None:
    world = World()
    controlled = await serving(world)
    (first,) = world.replicas()
    change(world, image="gen1:2")
    await controlled.turns(15)
    (second,) = set(world.replicas()) - {first}
    change(world, image="gen1:3")

    fewest = 4
    for _ in range(80):
        await controlled.turn()
        fewest = min(fewest, len(world.serving()))

    assert fewest == 4
    assert first not in world.replicas()
    assert second not in world.replicas()
    assert list(world.replicas().values()) == [4]


async def test_replicas_that_die_before_they_serve_are_left_to_the_kubelet() -> None:
    world = World()
    world.fleets["f"] = fleet_body()
    controlled = Controlled(world)
    await controlled.turns(10)
    for pod in world.pods.values():
        pod.broken = "crash"

    await controlled.turns(120)

    assert not any(line.startswith("delete pod") for line in world.log)
    degraded = controlled.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "BootsFail")
