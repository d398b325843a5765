import math

import numpy as np
import pytest

from neuronfleet.kernels.rmsnorm.reference import rmsnorm
from tests.kernels.ops_inputs import close


def test_a_row_worked_by_hand() -> None:
    # mean square of (3, 4) is 12.5; eps 0.5 makes it 13.
    got = rmsnorm(np.array([[3.0, 4.0]]), np.array([2.0, -1.0]), eps=0.5)

    assert got[0].tolist() == pytest.approx([6 / math.sqrt(13), -4 / math.sqrt(13)], rel=1e-15)


def test_a_zero_centred_weight_is_a_gain_less_one() -> None:
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((3, 5, 64)), rng.standard_normal(64)

    assert close(rmsnorm(x, weight, 1e-6, zero_centred=True), rmsnorm(x, weight + 1, 1e-6))
    assert close(rmsnorm(x, 0 * weight, zero_centred=True), rmsnorm(x, 0 * weight + 1))


def test_scale_of_the_input_cancels_and_rows_do_not_meet() -> None:
    rng = np.random.default_rng(2)
    x, weight = rng.standard_normal((4, 256)), rng.standard_normal(256)
    poisoned = x.copy()
    poisoned[2] = np.nan

    assert close(rmsnorm(1e6 * x, weight), rmsnorm(x, weight), 1e-5)
    assert np.array_equal(rmsnorm(poisoned, weight)[[0, 1, 3]], rmsnorm(x, weight)[[0, 1, 3]])


def test_a_row_of_zeros_or_denormals_stays_finite() -> None:
    tiny = np.full((1, 8), 1e-40, dtype=np.float32)

    assert np.isfinite(rmsnorm(tiny, np.ones(8, dtype=np.float32))).all()
    assert not rmsnorm(np.zeros((1, 8)), np.ones(8)).any()


def test_float32_is_answered_in_float32_close_to_float64() -> None:
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((4, 2048)), rng.standard_normal(2048)
    got = rmsnorm(x.astype(np.float32), weight.astype(np.float32), zero_centred=True)

    assert got.dtype == np.float32
    assert close(got.astype(np.float64), rmsnorm(x, weight, zero_centred=True), 1e-6)
