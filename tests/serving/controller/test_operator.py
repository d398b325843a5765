"""kopf's part of the controller."""

import random
from itertools import islice

import kopf

from neuronfleet.serving.controller.operator import Backoffs, NoDiffs, registry
from neuronfleet.serving.controller.store import Store


def test_a_watch_is_begun_again_however_long_the_api_server_is_away() -> None:
    backoffs = Backoffs(random.Random(1))

    first, again = list(islice(backoffs, 1000)), list(islice(backoffs, 3))

    assert len(first) == 1000
    assert max(first) <= 6.0
    assert again[0] < 0.5, "each loss begins with a short pause"
    assert len(set(first[10:20])) == 10, "jittered"


async def test_objects_are_not_copied_to_be_compared() -> None:
    settings = kopf.OperatorSettings()
    made = registry(Store(), random.Random(1))

    for handler in made._activities.get_all_handlers():
        if handler.id == "settings":
            await handler.fn(settings=settings)  # type: ignore[call-arg, misc]

    stored = settings.persistence.diffbase_storage
    assert isinstance(stored, NoDiffs)
    assert stored.build(body={"spec": {"replicas": 3}}) == {}
    assert stored.fetch(body={}) is None
