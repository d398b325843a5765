"""Several fleets in one budget: never above it, priority first, what runs before what is new."""

from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.planner.allocate import Claim, allocate
from neuronfleet.serving.planner.decide import Decision, Inputs, Reason

NO_INPUTS = Inputs(
    load=None,
    slots_needed=None,
    arrivals_per_s=None,
    rate_per_replica=None,
    current=0,
    sample_age_s=None,
    origin=None,
    window_s=60.0,
)


def claim(desired: int, running: int, price: float | None = 1.0, *, leaving: float = 0.0) -> Claim:
    decision = Decision(fleet="f", desired={"v": desired}, reason=Reason.SLOTS, inputs=NO_INPUTS)
    return Claim(
        decision=decision,
        serving={"v": running},
        booting={"v": 0},
        usd_per_hour={"v": price},
        leaving_usd_per_hour=leaving,
    )


def granted(claims: list[Claim], budget: float) -> list[int]:
    return [decision.total for decision in allocate(claims, budget)]


def test_within_the_budget_every_decision_stands_with_its_reason() -> None:
    decisions = allocate([claim(3, 1), claim(2, 2)], 5.0)

    assert [d.total for d in decisions] == [3, 2]
    assert {d.reason for d in decisions} == {Reason.SLOTS}


def test_a_cut_decision_says_that_the_budget_cut_it() -> None:
    first, second = allocate([claim(3, 1), claim(4, 1)], 4.0)

    assert (first.total, second.total) == (2, 2)
    assert {first.reason, second.reason} == {Reason.BUDGET}


def test_what_runs_and_is_wanted_is_kept_before_anything_new_is_granted() -> None:
    assert granted([claim(10, 1), claim(3, 3)], 4.0) == [1, 3]


def test_a_budget_below_what_runs_takes_from_the_last_in_priority() -> None:
    assert granted([claim(2, 2), claim(3, 3)], 3.0) == [2, 1]


def test_replicas_that_are_leaving_are_still_paid_for() -> None:
    assert granted([claim(3, 1, leaving=2.0)], 4.0) == [2]


def test_a_budget_keeps_serving_replicas_before_booting_ones() -> None:
    decision = Decision(fleet="f", desired={"a": 1, "b": 1}, reason=Reason.SLOTS, inputs=NO_INPUTS)
    both = Claim(
        decision=decision,
        serving={"a": 0, "b": 1},
        booting={"a": 1, "b": 0},
        usd_per_hour={"a": 1.0, "b": 1.0},
    )

    assert allocate([both], 1.0)[0].desired == {"a": 0, "b": 1}


def test_nothing_new_is_granted_at_an_unknown_price() -> None:
    assert granted([claim(3, 1, None)], 100.0) == [1]


CLAIMS = st.lists(
    st.builds(
        claim,
        st.integers(0, 10),
        st.integers(0, 10),
        st.floats(0.1, 5.0),
        leaving=st.floats(0, 3.0),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200)
@given(claims=CLAIMS, budget=st.floats(0, 40))
def test_what_is_granted_never_costs_more_than_the_budget(
    claims: list[Claim], budget: float
) -> None:
    decisions = allocate(claims, budget)

    prices = [claim.usd_per_hour["v"] or 0.0 for claim in claims]
    cost = sum(d.total * price for d, price in zip(decisions, prices, strict=True))
    assert cost == 0 or cost <= budget - sum(c.leaving_usd_per_hour for c in claims) + 1e-6
    assert all(d.total <= c.decision.total for d, c in zip(decisions, claims, strict=True))
