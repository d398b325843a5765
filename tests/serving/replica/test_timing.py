"""Buckets are chosen strictly, and unmeasured ones lie on the line between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.replica.timing import Basis, Buckets, PromptTooLongError, TimingModel

BUCKETS = Buckets(tokens=(256, 512, 1024), ms=(50.0, 100.0, 180.0))
TIMING = TimingModel(
    prefill=BUCKETS,
    prefill_ms_per_token=0.01,
    decode=Buckets(tokens=(256, 1024), ms=(40.0, 60.0)),
    decode_ms_per_slot=0.5,
    basis=Basis.MEASURED,
    source="test",
)


@pytest.mark.parametrize(
    ("length", "cost"), [(1, 50), (255, 50), (256, 100), (511, 100), (512, 180), (1023, 180)]
)
def test_a_length_runs_the_first_bucket_that_is_strictly_longer(length: int, cost: float) -> None:
    assert BUCKETS.cost(length) == cost


def test_1024_tokens_do_not_fit_a_1024_bucket() -> None:
    with pytest.raises(PromptTooLongError, match="prompt of 1024 tokens, must be below 1024"):
        TIMING.prefill_cost(1024)


def test_a_prompt_pays_its_bucket_and_a_little_a_token() -> None:
    assert TIMING.prefill_cost(100) == pytest.approx(51.0)


def test_a_step_pays_its_longest_sequence_s_bucket_and_a_little_a_further_slot() -> None:
    assert TIMING.step_cost(300, 1) == 60.0
    assert TIMING.step_cost(300, 5) == 62.0


def test_a_sequence_past_the_last_decode_bucket_costs_the_last_one() -> None:
    assert TIMING.step_cost(5000, 1) == 60.0


def test_an_unmeasured_bucket_lies_on_the_line_between_its_neighbours() -> None:
    assert BUCKETS.resized((384, 2048)).ms == pytest.approx((75.0, 340.0))


def test_a_scaled_model_says_so_and_keeps_the_host_s_time() -> None:
    scaled = TIMING.scaled(prefill=0.5, decode=0.25, source="elsewhere")

    assert scaled.basis is Basis.SCALED
    assert scaled.prefill_cost(100) == pytest.approx(25.5)
    assert scaled.step_cost(300, 1) == 15.0
    assert scaled.host_ms == TIMING.host_ms


@pytest.mark.parametrize(
    ("tokens", "ms"), [((), ()), ((1, 2), (1.0,)), ((2, 1), (1.0, 1.0)), ((1, 2), (-1.0, 1.0))]
)
def test_buckets_that_make_no_sense_are_refused(
    tokens: tuple[int, ...], ms: tuple[float, ...]
) -> None:
    with pytest.raises(SpecError):
        Buckets(tokens=tokens, ms=ms)


@given(length=st.integers(0, 1023))
def test_every_length_below_its_bucket_s_edge_costs_the_same(length: int) -> None:
    edge = BUCKETS.edge(length)

    assert edge > length
    assert BUCKETS.cost(edge - 1) == BUCKETS.cost(length)
