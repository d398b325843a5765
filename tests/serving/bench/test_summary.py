import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.bench.results import Result, Status
from neuronfleet.serving.bench.summary import Summary, summarize
from neuronfleet.serving.replica.replay import quantile
from tests.serving.bench.fakes import OBJECTIVE


def result(status: Status = Status.OK, **changes: Any) -> Result:
    answered = {"first_s": 11.0, "last_s": 12.0, "tokens": 21, "first_tokens": 1}
    given: dict[str, Any] = {
        "number": 0,
        "status": status,
        "scheduled_s": 10.0,
        "sent_s": 10.0,
        "ended_s": 12.0,
        "asked_prompt_tokens": 8,
        "asked_tokens": 21,
    }
    return Result(**given | (answered if status is Status.OK else {}) | changes)


def summary(*results: Result, **more: Any) -> Summary:
    return summarize(results, OBJECTIVE, window_s=100, **more)


def test_nothing_gives_none_and_not_zero() -> None:
    nothing = summary()

    assert (nothing.attainment, nothing.ttft.p50, nothing.tpot.p99) == (None, None, None)
    assert (nothing.dispatch_lag_p99_s, nothing.void) == (None, ())


def test_every_failure_is_a_miss_among_the_offered() -> None:
    bad = [one for one in Status if one not in (Status.OK, Status.UNFINISHED)]

    seen = summary(*[result(), result()], *map(result, bad), result(Status.UNFINISHED))

    assert (seen.offered, seen.ok, seen.unfinished) == (7, 2, 1)
    assert (seen.refused, seen.rejected, seen.empty, seen.cut, seen.failed) == (1,) * 5
    assert seen.attainment == pytest.approx(2 / 7)


@pytest.mark.parametrize(
    ("changes", "meets"),
    [
        ({}, True),
        ({"first_s": 12.1, "last_s": 12.2}, False),  # TTFT 2.1 s of 2
        ({"last_s": 13.1}, False),  # TPOT 105 ms of 100
        ({"tokens": 1, "last_s": 11.0}, True),  # no TPOT to miss
        ({"first_tokens": None, "last_s": 99.0}, True),
    ],
)
def test_a_request_meets_both_times_or_misses(changes: dict[str, Any], meets: bool) -> None:
    assert result(**changes).meets(OBJECTIVE) is meets


def test_latency_counts_from_the_schedule_and_not_from_the_sending() -> None:
    assert result(sent_s=10.9).ttft_s == 1.0


def test_one_failure_in_ten_makes_the_last_percentile_infinite_and_not_the_median() -> None:
    seen = summary(*[result()] * 9, result(Status.REFUSED))

    assert (seen.ttft.p50, seen.ttft.p99) == (1.0, math.inf)
    assert (seen.tpot.p50, seen.tpot.p99) == (0.05, math.inf)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_without_failures_the_percentiles_are_the_plain_ones(ttft: list[float]) -> None:
    seen = summary(*(result(first_s=10 + one, last_s=200.0) for one in ttft))

    for got, share in ((seen.ttft.p50, 0.5), (seen.ttft.p90, 0.9), (seen.ttft.p99, 0.99)):
        assert got == pytest.approx(quantile(ttft, share), abs=1e-6)


@given(st.integers(1, 30), st.integers(0, 30))
def test_refusing_never_improves_a_percentile(served: int, refused: int) -> None:
    some = [result(first_s=10 + n / 100, last_s=12.0) for n in range(served)]

    without, having = summary(*some), summary(*some, *[result(Status.REFUSED)] * refused)

    assert without.ttft.p50 is not None
    assert having.ttft.p50 is not None
    assert having.ttft.p50 >= without.ttft.p50


def test_tokens_of_what_ended_are_counted_over_the_window() -> None:
    seen = summary(result(), result(Status.CUT, tokens=4), result(Status.UNFINISHED, tokens=9))

    assert (seen.output_tokens, seen.unfinished_tokens) == (25, 9)
    assert seen.tokens_per_second == 0.25


def test_a_lag_of_over_five_percent_of_the_objective_voids_the_run() -> None:
    assert summary(result(sent_s=10.09)).void == ()

    (why,) = summary(result(sent_s=10.11)).void

    assert why == "requests left 110 ms late at p99, over 100 ms: 5% of the TTFT objective"


def test_a_late_event_loop_voids_the_run() -> None:
    (why,) = summary(result(), loop_late_p99_s=0.2).void

    assert why.startswith("the client's event loop ran 200 ms late")
