import cmath

import numpy as np
import pytest

from neuronfleet.kernels.rope.reference import rope, rope_tables
from tests.kernels.ops_inputs import close

HEAD, ROTARY = 256, 64


def test_a_pair_turns_as_a_complex_number_does() -> None:
    # Dimensions i and i + 32 are the real and imaginary part of z; y = z exp(j angle).
    rng = np.random.default_rng(1)
    x, position = rng.standard_normal((1, 1, HEAD)), 1234
    got = rope(x, *rope_tables(np.array([position]), ROTARY, 1e7, np.float64))[0, 0]

    for i in (0, 7, 31):
        turned = complex(x[0, 0, i], x[0, 0, i + 32]) * cmath.exp(1j * position * 1e7 ** (-i / 32))
        assert got[i] == pytest.approx(turned.real, rel=1e-11)
        assert got[i + 32] == pytest.approx(turned.imag, rel=1e-11)


def test_dimensions_past_the_rotary_ones_pass_and_position_zero_changes_nothing() -> None:
    x = np.random.default_rng(2).standard_normal((3, 4, HEAD))
    got = rope(x, *rope_tables(np.array([0, 5, 131071]), ROTARY, 1e7, np.float64))

    assert np.array_equal(got[..., ROTARY:], x[..., ROTARY:])
    assert np.array_equal(got[0], x[0])
    assert not np.allclose(got[1, :, :ROTARY], x[1, :, :ROTARY])


def test_length_is_kept_and_scores_depend_on_the_distance_alone() -> None:
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((1, 1, HEAD)), rng.standard_normal((1, 1, HEAD))

    def score(at: int, back: int) -> float:
        turned_q = rope(q, *rope_tables(np.array([at]), ROTARY, 1e7, np.float64))
        turned_k = rope(k, *rope_tables(np.array([at - back]), ROTARY, 1e7, np.float64))
        assert np.linalg.norm(turned_q) == pytest.approx(float(np.linalg.norm(q)), rel=1e-12)
        return float((turned_q * turned_k).sum())

    assert score(100, 17) == pytest.approx(score(90000, 17), rel=1e-9)
    assert score(100, 17) != pytest.approx(score(100, 18), rel=1e-3)


def test_each_sequence_turns_by_its_own_position() -> None:
    x = np.random.default_rng(4).standard_normal((3, 2, HEAD))
    positions = np.array([7, 4095, 0])
    got = rope(x, *rope_tables(positions, ROTARY, 1e7, np.float64))

    for row in range(3):
        alone = rope_tables(positions[row : row + 1], ROTARY, 1e7, np.float64)
        assert close(got[row : row + 1], rope(x[row : row + 1], *alone))


def test_float32_angles_are_those_of_the_model_and_drift_as_it_does() -> None:
    positions = np.array([131071])
    narrow, wide = (rope_tables(positions, ROTARY, 1e7, d)[0] for d in (np.float32, np.float64))

    assert narrow.dtype == np.float32
    assert 1e-5 < np.abs(narrow - wide).max() < 0.02
