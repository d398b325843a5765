"""Advisory: decided and published; the counts are somebody else's."""

from tests.controller_world import Controlled, World, fleet_body, started, variant


def published(controlled: Controlled, variant: str = "inf2") -> float | None:
    labels = {"fleet": "serving.f", "variant": variant, "mode": "Advisory"}
    registry = controlled.exporter.registry
    return registry.get_sample_value("neuronfleet_fleet_desired_replicas", labels)


async def test_an_advisory_fleet_is_decided_for_and_left_as_it_is() -> None:
    world = World()
    controlled = await started(world, load=9.0, mode="Advisory")

    assert published(controlled) == 4
    assert list(world.replicas().values()) == [1]

    world.objects[("Deployment", next(iter(world.replicas())))]["spec"]["replicas"] = 3
    await controlled.turns(60)
    assert list(world.replicas().values()) == [3], "somebody else's count stays"


async def test_a_fixed_count_is_carried_out_and_does_not_bound_what_is_published() -> None:
    world = World()
    controlled = await started(world, load=9.0, mode="Advisory", scaling=None, replicas=1)
    assert published(controlled) == 4
    assert list(world.replicas().values()) == [1]

    # An HPA that follows the metric sets the count over the scale subresource.
    world.fleets["f"]["spec"]["replicas"] = 4
    world.fleets["f"]["metadata"]["generation"] += 1
    await controlled.turns(60)

    assert list(world.replicas().values()) == [4]
    assert len(world.serving()) == 4
    assert published(controlled) == 4


async def test_no_rollout_begins_and_the_condition_says_so() -> None:
    world = World()
    controlled = await started(world, load=1.0, mode="Advisory")
    before = world.replicas()

    world.fleets["f"]["spec"]["variants"] = [variant(image="gen1:2")]
    world.fleets["f"]["metadata"]["generation"] += 1
    await controlled.turns(120)

    assert world.replicas() == before
    progressing = controlled.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "Advisory")
    assert "inf2: revision" in progressing["message"]


async def test_the_budget_is_sized_by_the_replicas_that_somebody_else_set() -> None:
    world = World()
    controlled = await started(world, load=1.0, mode="Advisory")
    (name,) = world.replicas()
    world.objects["Deployment", name]["spec"]["replicas"] = 4

    await controlled.turns(60)

    budget = world.objects["PodDisruptionBudget", "f"]["spec"]
    alone = World()
    alone.fleets["f"] = fleet_body(scaling=None, replicas=4)
    await Controlled(alone).turns(60)
    assert budget == alone.objects["PodDisruptionBudget", "f"]["spec"]


async def test_series_of_another_mode_or_of_a_variant_that_is_gone_are_taken_away() -> None:
    world = World()
    controlled = await started(world, load=1.0, mode="Advisory")
    assert published(controlled) == 1

    world.fleets["f"]["spec"] |= {"mode": "Active", "variants": [variant("other")]}
    world.fleets["f"]["metadata"]["generation"] += 1
    await controlled.turns(5)

    assert published(controlled) is None
    labels = {"fleet": "serving.f", "variant": "other", "mode": "Active"}
    name = "neuronfleet_fleet_desired_replicas"
    assert controlled.exporter.registry.get_sample_value(name, labels) == 1
    controlled.exporter.clear()
    assert controlled.exporter.registry.get_sample_value(name, labels) is None
