import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.kernels.router.reference import route
from tests.kernels.ops_inputs import close, normal


def by_definition(logits: list[float], top_k: int) -> dict[int, float]:
    """Softmax over all, the largest, their share: written out, one token."""
    raised = [math.exp(logit - max(logits)) for logit in logits]
    probability = [value / sum(raised) for value in raised]
    chosen = sorted(range(len(logits)), key=lambda e: (-logits[e], e))[:top_k]
    total = sum(probability[e] for e in chosen)
    return {e: probability[e] / total for e in chosen}


@settings(max_examples=40)
@given(st.lists(st.floats(-20, 20), min_size=12, max_size=12))
def test_weights_are_the_softmax_over_all_experts_renormalised_over_the_chosen(
    logits: list[float],
) -> None:
    # One hidden dimension of 1 makes the weight's column the logits.
    ids, weights = route(np.ones((1, 1)), np.array(logits)[:, None], 4)
    said = dict(zip(ids[0].tolist(), weights[0].tolist(), strict=True))

    assert said == pytest.approx(by_definition(logits, 4), rel=1e-12)


def test_equal_logits_go_to_the_lower_ids_in_order() -> None:
    logits = np.array([0.0, 5.0, 1.0, 5.0, 1.0, 1.0, 1.0])
    ids, weights = route(np.ones((1, 1)), logits[:, None], 4)
    all_same, _ = route(np.zeros((2, 3)), np.ones((256, 3)), 8)

    assert ids[0].tolist() == [1, 3, 2, 4]
    assert weights[0, 0] == weights[0, 1] > weights[0, 2] == weights[0, 3]
    assert all_same.tolist() == [list(range(8))] * 2


def test_large_logits_stay_finite_and_pick_by_size_where_probabilities_all_round_to_zero() -> None:
    logits = np.array([9e4, 0.0, 3.0, 1.0, 2.0], dtype=np.float32)
    ids, weights = route(np.ones((1, 1), dtype=np.float32), logits[:, None], 3)

    assert ids[0].tolist() == [0, 2, 4]
    assert weights[0].tolist() == [1, 0, 0]
    assert weights.dtype == np.float32


def test_tokens_and_experts_may_be_permuted() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 64)), normal(rng, 256, 64)
    ids, weights = route(x, w, 8)
    tokens, experts = rng.permutation(8), rng.permutation(256)
    moved_ids, moved_weights = route(x[tokens], w[experts], 8)

    assert np.array_equal(experts[moved_ids], ids[tokens])
    assert close(moved_weights, weights[tokens])
    assert weights.sum(axis=1).tolist() == pytest.approx([1] * 8)
    assert (np.diff(weights) <= 0).all()


def test_a_token_of_nan_changes_no_other() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((4, 64)), normal(rng, 256, 64)
    ids, weights = route(x, w, 8)
    x[1] = np.nan
    poisoned_ids, poisoned_weights = route(x, w, 8)

    assert np.array_equal(poisoned_ids[[0, 2, 3]], ids[[0, 2, 3]])
    assert close(poisoned_weights[[0, 2, 3]], weights[[0, 2, 3]])
