import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.traffic import Lengths
from neuronfleet.serving.replica import replay
from neuronfleet.serving.simulator.arrivals import (
    Burst,
    Diurnal,
    Pattern,
    Stages,
    Steady,
    arrivals,
    peak_rate,
    rate_at,
)

INPUT = Lengths(values=((128, 0.25), (1024, 0.75)))
OUTPUT = Lengths(values=((64, 1.0),))

RATES = st.floats(0, 20)
PATTERNS = st.one_of(
    st.builds(Steady, rate=RATES),
    st.builds(Burst, base=RATES, peak=RATES, every_s=st.floats(20, 90), lasting_s=st.floats(0, 20)),
    st.builds(Diurnal, mean=RATES, swing=st.floats(0, 1), period_s=st.floats(10, 500)),
    st.lists(st.tuples(st.integers(0, 100), RATES), min_size=1, unique_by=lambda one: one[0]).map(
        lambda stages: Stages(stages=tuple((float(at), rate) for at, rate in sorted(stages)))
    ),
)


def drawn(pattern: Pattern, seed: int = 1, seconds: float = 100) -> list[replay.Arrival]:
    return list(arrivals(pattern, INPUT, OUTPUT, seed=seed, seconds=seconds))


def expected(pattern: Pattern, seconds: float) -> float:
    steps = 20_000
    return sum(rate_at(pattern, (n + 0.5) * seconds / steps) for n in range(steps)) * (
        seconds / steps
    )


@given(PATTERNS, st.integers())
def test_times_ascend_within_the_window(pattern: Pattern, seed: int) -> None:
    times = [one.at_ms for one in drawn(pattern, seed)]

    assert times == sorted(times)
    assert all(0 <= at < 100_000 for at in times)


@settings(max_examples=50, deadline=None)
@given(PATTERNS, st.integers())
def test_there_are_as_many_as_the_rate_adds_up_to(pattern: Pattern, seed: int) -> None:
    mean = expected(pattern, 100)

    # Six deviations of a Poisson count; and one for the shortest of windows.
    assert abs(len(drawn(pattern, seed)) - mean) <= 6 * math.sqrt(mean) + 6


@given(PATTERNS, st.integers())
def test_the_same_seed_gives_the_same_arrivals(pattern: Pattern, seed: int) -> None:
    assert drawn(pattern, seed, 30) == drawn(pattern, seed, 30)


@given(PATTERNS, st.floats(0, 1000))
def test_no_moment_is_above_the_peak(pattern: Pattern, t_s: float) -> None:
    assert 0 <= rate_at(pattern, t_s) <= peak_rate(pattern) * (1 + 1e-12)


@pytest.mark.parametrize(("rate", "requests"), [(1.0, 121), (4.0, 455)])
def test_a_steady_rate_has_the_very_times_of_the_study(rate: float, requests: int) -> None:
    poisson = replay.poisson(42, rate=rate, seconds=120, prompt_tokens=1, output_tokens=1)

    steady = drawn(Steady(rate=rate), 42, 120)

    assert [one.at_ms for one in steady] == [one.at_ms for one in poisson]
    assert len(steady) == requests


def test_lengths_come_from_their_distributions() -> None:
    count = Counter(one.prompt_tokens for one in drawn(Steady(rate=50)))

    assert count.keys() == {128, 1024}
    assert count[1024] / count.total() == pytest.approx(0.75, abs=0.03)
    assert {one.output_tokens for one in drawn(Steady(rate=50))} == {64}


def test_other_lengths_leave_the_times_as_they_are() -> None:
    pattern = Burst(base=1, peak=9, every_s=20, lasting_s=5)
    mixed, plain = (
        list(arrivals(pattern, lengths, OUTPUT, seed=5, seconds=100)) for lengths in (INPUT, OUTPUT)
    )

    assert [one.at_ms for one in mixed] == [one.at_ms for one in plain]


def test_an_endless_load_is_drawn_as_asked_for() -> None:
    endless = arrivals(Steady(rate=1), INPUT, OUTPUT, seed=1, seconds=math.inf)

    assert len(list(itertools.islice(endless, 100))) == 100


def test_a_period_ends_in_its_burst() -> None:
    pattern = Burst(base=1, peak=9, every_s=60, lasting_s=10)

    assert [rate_at(pattern, t_s) for t_s in (0, 49.9, 50, 59.9, 60, 110)] == [1, 1, 9, 9, 1, 9]


def test_a_day_begins_at_its_quietest() -> None:
    day = Diurnal(mean=10, swing=0.5)

    rates = [rate_at(day, hour * 3600) for hour in (0, 6, 12, 18)]

    assert rates == pytest.approx([5, 10, 15, 10])


def test_nothing_arrives_before_the_first_stage_or_in_one_of_zero() -> None:
    stages = Stages(stages=((10, 20), (20, 0), (90, 20)))

    seconds = {int(one.at_ms / 10_000) for one in drawn(stages)}

    assert seconds == {1, 9}
    assert [rate_at(stages, t_s) for t_s in (9.9, 10, 20, 90)] == [0, 20, 0, 20]


def test_a_rate_of_zero_is_a_load_of_nothing() -> None:
    assert drawn(Steady(rate=0), seconds=math.inf) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Steady(rate=-1), "rate = -1, must be at least 0"),
        (lambda: Steady(rate=math.nan), "rate = nan"),
        (lambda: Diurnal(mean=1, swing=1.5), r"swing = 1.5, must be in \[0, 1\]"),
        (lambda: Diurnal(mean=1, swing=1, period_s=0), "period_s = 0, must be above 0"),
        (lambda: Burst(base=1, peak=2, every_s=5, lasting_s=6), r"lasting_s = 6, must be in \[0,"),
        (lambda: Stages(stages=()), "must be at least one"),
        (lambda: Stages(stages=((5, 1), (5, 2))), "must be at least one, and ascend"),
        (lambda: Stages(stages=((0, -2),)), r"stages\[0\].rate = -2"),
    ],
)
def test_what_is_no_load_is_refused(make: object, message: str) -> None:
    assert callable(make)

    with pytest.raises(SpecError, match=message):
        make()
