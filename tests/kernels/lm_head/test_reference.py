import numpy as np

from neuronfleet.kernels.lm_head.reference import greedy, lm_head_tile
from tests.kernels.ops_inputs import close, normal


def test_a_tile_worked_by_hand() -> None:
    logits, best, token = lm_head_tile(
        np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), first_token=100
    )

    assert logits.tolist() == [[1, 6, 3]]
    assert (best.tolist(), token.tolist()) == ([6], [101])


def test_tiles_side_by_side_are_the_whole_head_and_choose_its_token() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 128)), normal(rng, 1000, 128)
    whole, _best, token = lm_head_tile(x, w)
    tiles = [lm_head_tile(x, w[first : first + 300], first) for first in range(0, 1000, 300)]

    assert close(np.concatenate([logits for logits, _, _ in tiles], axis=1), whole)
    assert np.array_equal(greedy([t[1] for t in tiles], [t[2] for t in tiles]), token)
    assert token.dtype == np.int32


def test_equal_logits_give_the_lowest_token_within_and_across_tiles() -> None:
    x, w = np.ones((2, 4)), np.ones((6, 4))
    tiles = [lm_head_tile(x, w[first : first + 3], first) for first in (0, 3)]

    assert tiles[1][2].tolist() == [3, 3]
    assert greedy([t[1] for t in tiles], [t[2] for t in tiles]).tolist() == [0, 0]
