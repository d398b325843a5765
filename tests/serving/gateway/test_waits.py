import pytest

from neuronfleet.serving.gateway.stats import FleetStats
from neuronfleet.serving.gateway.waits import NO_SLOT_S, HoldTime, wait_s


def stats(*, requests: int, in_flight: int, queued: int = 0, refused: int = 0) -> FleetStats:
    return FleetStats(
        name="f",
        queued=queued,
        in_flight=in_flight,
        refused=refused,
        requests=requests,
        replicas=(),
    )


def test_slots_over_the_time_that_each_is_held_say_how_fast_the_queue_moves() -> None:
    assert wait_s(slots=10, queued=4, held_s=20.0) == 10
    assert wait_s(slots=10, queued=0, held_s=0.5) == 1, "never less than a second"


def test_without_a_slot_nobody_knows() -> None:
    assert wait_s(slots=0, queued=4, held_s=20.0) == NO_SLOT_S


def test_hold_time_is_slot_seconds_over_requests_that_ended() -> None:
    time = HoldTime()

    time.see(stats(requests=4, in_flight=4), 0.0)
    assert time.mean_s is None, "unknown is not zero"
    time.see(stats(requests=6, in_flight=4), 10.0)

    # 4 slots for 10 s, and 2 requests ended.
    assert time.mean_s == pytest.approx(20.0)


def test_who_waits_or_was_refused_has_held_nothing() -> None:
    time = HoldTime()

    time.see(stats(requests=4, in_flight=4), 0.0)
    time.see(stats(requests=10, in_flight=4, queued=5, refused=1), 10.0)

    assert time.mean_s is None
