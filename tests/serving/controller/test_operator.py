"""kopf's part of the controller."""

import random
from itertools import islice

from neuronfleet.serving.controller.operator import Backoffs


def test_a_watch_is_begun_again_however_long_the_api_server_is_away() -> None:
    backoffs = Backoffs(random.Random(1))

    first, again = list(islice(backoffs, 1000)), list(islice(backoffs, 3))

    assert len(first) == 1000
    assert max(first) <= 6.0
    assert again[0] < 0.5, "each loss begins with a short pause"
    assert len(set(first[10:20])) == 10, "jittered"
