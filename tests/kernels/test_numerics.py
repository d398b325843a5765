import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.kernels import numerics

FINITE = st.floats(-1e4, 1e4)


@given(FINITE)
def test_sigmoid_and_softplus_agree_with_the_textbook_where_that_does_not_overflow(
    x: float,
) -> None:
    seen = np.array([x])
    if abs(x) < 30:
        assert numerics.sigmoid(seen)[0] == pytest.approx(1 / (1 + math.exp(-x)), rel=1e-14)
        assert numerics.softplus(seen)[0] == pytest.approx(math.log1p(math.exp(x)), rel=1e-12)
    # d/dx softplus = sigmoid, at any size.
    slope = (numerics.softplus(seen + 1e-3) - numerics.softplus(seen - 1e-3)) / 2e-3
    assert slope[0] == pytest.approx(float(numerics.sigmoid(seen)[0]), abs=1e-6)


def test_tails_neither_overflow_nor_lose_their_limit() -> None:
    extremes = np.array([-3e38, -1e4, 1e4, 3e38], dtype=np.float32)

    assert numerics.sigmoid(extremes).tolist() == [0, 0, 1, 1]
    assert numerics.silu(extremes)[:2].tolist() == [0, 0]
    assert numerics.softplus(extremes)[1:3].tolist() == [0, 1e4]


def test_softmax_of_large_scores_is_that_of_the_scores_less_any_constant() -> None:
    scores = np.array([[1.0, 2.0, 4.0]])

    assert np.allclose(numerics.softmax(scores + 1e6), numerics.softmax(scores), rtol=1e-9)
    assert numerics.softmax(np.array([[1e38, -1e38]], dtype=np.float32)).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("given_dtypes", "worked"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float64, np.float32), np.float64),
        ((ml_dtypes.bfloat16, ml_dtypes.bfloat16), np.float32),
        ((ml_dtypes.bfloat16, np.float64), np.float64),
    ],
)
def test_work_is_done_in_float64_where_any_input_is_and_else_in_float32(
    given_dtypes: tuple[type, type], worked: type
) -> None:
    arrays = numerics.working(*(np.ones(2, dtype=dtype) for dtype in given_dtypes))

    assert [array.dtype for array in arrays] == [np.dtype(worked)] * 2


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_is_refused_by_name_and_value(index: int) -> None:
    with pytest.raises(ValueError, match=rf"slots = {index}, must be in \[0, 4\)"):
        numerics.check_range("slots", np.array([0, index]), 4)
