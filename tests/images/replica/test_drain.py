from itertools import pairwise

import pytest

from neuronfleet_replica.drain import Wait, drain
from neuronfleet_replica.server import Look, Unreachable
from tests.images.replica.helpers import FakeServer

EMPTY = Look(running=0, waiting=0, tokens=9)
BUSY = Look(running=0, waiting=1, tokens=9)


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def drain(self, port: int, timeout_s: float, settle_s: float) -> str:
        return drain(port, timeout_s, settle_s, monotonic=self.monotonic, sleep=self.sleep)


def test_an_empty_server_is_left_after_two_looks_beyond_the_settling(server: FakeServer) -> None:
    clock = Clock()

    reason = clock.drain(server.port, 60, 3)

    assert reason == "no sequence is left"
    assert clock.now - 100 == 3.5


def test_streams_are_waited_for(server: FakeServer) -> None:
    clock = Clock()

    def end_at_the_20th_look(fake: FakeServer) -> None:
        fake.running = 2 if fake.looks < 20 else 0

    server.on_look = end_at_the_20th_look

    assert clock.drain(server.port, 60, 3) == "no sequence is left"
    assert server.looks == 21


def test_the_wait_ends_at_the_timeout(server: FakeServer) -> None:
    server.running = 1
    clock = Clock()

    assert clock.drain(server.port, 10, 3) == "sequences are left after 10 s"
    assert clock.now - 100 == pytest.approx(10)


def test_a_server_that_is_gone_is_not_waited_for() -> None:
    clock = Clock()

    assert clock.drain(1, 60, 3) == "the server is gone: nothing listens on port 1"
    assert not clock.slept


def test_one_look_that_fails_does_not_cut_a_stream(server: FakeServer) -> None:
    clock = Clock()

    def stumble(fake: FakeServer) -> None:
        fake.metrics_status = 500 if fake.looks == 3 else 200
        fake.running = 1 if fake.looks < 6 else 0

    server.on_look = stumble

    assert clock.drain(server.port, 60, 0) == "no sequence is left"
    assert server.looks == 7


def test_three_failed_looks_in_a_row_are_a_dead_server() -> None:
    wait = Wait(settle_s=0)
    failed = Unreachable("/metrics gave no answer in 5.0 s")

    ends = [wait.missed(failed), wait.missed(failed), wait.saw(BUSY, 9.0)]
    ends += [wait.missed(failed), wait.missed(failed), wait.missed(failed)]

    assert [end is not None for end in ends] == [False] * 5 + [True]


def test_looks_before_the_settling_and_apart_from_each_other_do_not_count() -> None:
    wait = Wait(settle_s=3)
    looks = [(EMPTY, 0.0), (EMPTY, 1.0), (EMPTY, 3.0), (BUSY, 3.5), (EMPTY, 4.0), (EMPTY, 4.5)]

    ends = [wait.saw(look, at) for look, at in looks]

    assert ends == [None] * 5 + ["no sequence is left"]
    assert all(first[1] < second[1] for first, second in pairwise(looks))


def test_an_unknown_load_is_not_an_empty_server() -> None:
    wait = Wait(settle_s=0)
    unknown = Look(running=None, waiting=None, tokens=None)

    assert [wait.saw(unknown, at) for at in (1.0, 2.0, 3.0)] == [None] * 3
