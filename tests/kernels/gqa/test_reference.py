import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neuronfleet.kernels.gqa.prefill import gqa_prefill
from neuronfleet.kernels.gqa.reference import attend, gqa_step
from neuronfleet.kernels.models.blocks import PagedKeysValues
from neuronfleet.kernels.numerics import Floats, Ints
from neuronfleet.kernels.rope.reference import rope_tables
from neuronfleet.kernels.weights import AttentionWeights
from tests.kernels.ops_inputs import (
    TINY,
    angles,
    as_dtype,
    attention_weights,
    close,
    named,
    pages,
)

SIZE = 4
TABLE = np.array([[5, 1, 9], [3, 0, 0], [2, 7, 0]])
LENGTHS = np.array([10, 1, 8])


def inputs(seed: int = 1) -> tuple[Floats, AttentionWeights, PagedKeysValues]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, TINY.hidden))
    return x, attention_weights(rng, TINY), pages(rng, TINY, 10, SIZE)


def step(
    x: Floats,
    w: AttentionWeights,
    held: PagedKeysValues,
    table: Ints = TABLE,
    lengths: Ints = LENGTHS,
) -> Floats:
    cos, sin = angles(TINY, lengths)
    more: dict[str, Any] = {"cos": cos, "sin": sin, "block_table": table, "lengths": lengths}
    return gqa_step(x, **named(w, held), **more)


def test_attention_worked_by_the_loops_of_the_definition() -> None:
    rng = np.random.default_rng(2)
    q = rng.standard_normal((1, 4, 8))
    k, v = rng.standard_normal((3, 2, 2, 8)), rng.standard_normal((3, 2, 2, 8))
    got = attend(q, k, v, np.array([[2, 0]]), np.array([3]))

    # Tokens 0 and 1 lie in block 2, token 2 in block 0; query heads 0 and 1 read KV head 0.
    places = [(2, 0), (2, 1), (0, 0)]
    for head in range(4):
        scores = [float(q[0, head] @ k[b, r, head // 2]) / math.sqrt(8) for b, r in places]
        total = sum(math.exp(s) for s in scores)
        mixed = sum(
            math.exp(s) / total * v[b, r, head // 2]
            for s, (b, r) in zip(scores, places, strict=True)
        )
        assert np.allclose(got[0, head], mixed, rtol=1e-13)


def test_the_first_token_of_a_sequence_is_its_own_value_gated() -> None:
    x, w, held = inputs()
    y = step(x, w, held)[1]
    value = np.repeat((w.w_v @ x[1]).reshape(2, 16), 4, axis=0)
    gate = (w.w_q @ x[1]).reshape(8, 2, 16)[:, 1]

    assert np.allclose(y, w.w_o @ (value / (1 + np.exp(-gate))).reshape(-1), rtol=1e-12)


def test_the_new_key_is_normed_rotated_and_stored_at_its_place_alone() -> None:
    x, w, held = inputs()
    before = as_dtype(held, np.float64)
    step(x, w, held)
    places = [(9, 1), (3, 0), (7, 3)]
    untouched = np.ones((10, SIZE), dtype=bool)
    untouched[tuple(zip(*places, strict=True))] = False

    assert np.array_equal(held.k_cache[untouched], before.k_cache[untouched])
    assert np.array_equal(held.v_cache[untouched], before.v_cache[untouched])
    k = (w.w_k @ x[0]).reshape(2, 16)
    k = k / np.sqrt((k**2).mean(axis=1, keepdims=True) + 1e-6) * (1 + w.k_norm)
    turned = [(k[:, i] + 1j * k[:, i + 2]) * np.exp(1j * 9 * 1e4 ** (-i / 2)) for i in (0, 1)]
    assert np.allclose(held.k_cache[9, 1, :, :2], np.real(turned).T, rtol=1e-12)
    assert np.allclose(held.k_cache[9, 1, :, 2:4], np.imag(turned).T, rtol=1e-12)
    assert np.allclose(held.k_cache[9, 1, :, 4:], k[:, 4:], rtol=1e-12)
    assert np.allclose(held.v_cache[9, 1].reshape(-1), w.w_v @ x[0], rtol=1e-12)


def test_scores_as_large_as_they_come_stay_finite() -> None:
    q = np.full((1, 2, 8), 1e15, dtype=np.float32)
    k = np.zeros((1, 4, 1, 8), dtype=np.float32)
    k[0, 2] = 1e15
    v = np.arange(32, dtype=np.float32).reshape(1, 4, 1, 8)
    got = attend(q, k, v, np.array([[0]]), np.array([4]))

    assert np.array_equal(got[0, 1], v[0, 2, 0])


def test_equal_scores_average_the_values() -> None:
    rng = np.random.default_rng(3)
    v = rng.standard_normal((1, 4, 1, 8))
    got = attend(rng.standard_normal((1, 2, 8)), np.ones_like(v), v, np.array([[0]]), np.array([3]))

    assert np.allclose(got[0], v[0, :3, 0].mean(axis=0), rtol=1e-13)


def test_batch_and_order_do_not_matter() -> None:
    x, w, held = inputs()
    alone, turned = as_dtype(held, np.float64), as_dtype(held, np.float64)
    y, order = step(x, w, held), [2, 0, 1]
    rows = (slice(i, i + 1) for i in range(3))

    assert close(np.concatenate([step(x[r], w, alone, TABLE[r], LENGTHS[r]) for r in rows]), y)
    assert close(step(x[order], w, turned, TABLE[order], LENGTHS[order]), y[order])
    assert close(alone.k_cache, held.k_cache)
    assert close(turned.v_cache, held.v_cache)


def test_blocks_may_lie_anywhere() -> None:
    x, w, held = inputs()
    moved_to = np.random.default_rng(4).permutation(10)
    k_cache, v_cache = np.empty_like(held.k_cache), np.empty_like(held.v_cache)
    k_cache[moved_to], v_cache[moved_to] = held.k_cache, held.v_cache
    moved = PagedKeysValues(k_cache=k_cache, v_cache=v_cache)

    assert np.array_equal(step(x, w, moved, moved_to[TABLE]), step(x, w, held))


def test_what_lies_past_a_length_or_in_other_blocks_never_leaks() -> None:
    x, w, held = inputs()
    poisoned = as_dtype(held, np.float64)
    read = np.zeros((10, SIZE), dtype=bool)
    for row, length in zip(TABLE, LENGTHS, strict=True):
        for t in range(length):
            read[row[t // SIZE], t % SIZE] = True
    poisoned.k_cache[~read], poisoned.v_cache[~read] = np.nan, np.nan
    # The table past the length may point anywhere.
    wild = TABLE.copy()
    wild[1, 1:], wild[2, 2] = -1, 99

    assert np.array_equal(step(x, w, poisoned, wild), step(x, w, held))


def test_order_of_the_tokens_seen_does_not_matter_once_their_keys_are_rotated() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, n, 2, 16)) for n in (1, 20, 20))
    order = rng.permutation(20)
    table, length = np.array([[0]]), np.array([20])

    assert close(
        attend(q[0], k[:, order], v[:, order], table, length), attend(q[0], k, v, table, length)
    )


@pytest.mark.parametrize("prefix", [0, 3, 8])
def test_prefill_is_its_steps_one_after_another(prefix: int) -> None:
    rng = np.random.default_rng(6)
    w, held = attention_weights(rng, TINY), pages(rng, TINY, 8, SIZE)
    stepped, blocks = as_dtype(held, np.float64), np.array([6, 2, 7, 0, 1])
    x = rng.standard_normal((11, TINY.hidden))
    cos, sin = rope_tables(np.arange(prefix, prefix + 11), TINY.rotary_dim, 1e4, np.float64)
    y = gqa_prefill(x, **named(w, held), cos=cos, sin=sin, blocks=blocks, start=prefix)
    lengths = [np.array([prefix + i + 1]) for i in range(11)]
    expected = [step(x[i : i + 1], w, stepped, blocks[None], lengths[i]) for i in range(11)]

    assert close(y, np.concatenate(expected))
    assert close(held.k_cache, stepped.k_cache)
    assert close(held.v_cache, stepped.v_cache)


def test_bfloat16_caches_hold_rounded_keys_and_float32_answers_in_float32() -> None:
    import ml_dtypes

    x, w, held = inputs()
    exact = step(x, w, held)
    rounded = as_dtype(held, ml_dtypes.bfloat16)
    y = step(x.astype(np.float32), as_dtype(w, np.float32), as_dtype(held, np.float32))

    assert close(step(x, w, rounded), exact, 0.02)
    assert rounded.k_cache.dtype == ml_dtypes.bfloat16
    assert close(y.astype(np.float64), exact, 1e-5)


@pytest.mark.parametrize("length", [0, 13])
def test_a_length_that_the_table_cannot_hold_is_refused(length: int) -> None:
    x, w, held = inputs()

    with pytest.raises(ValueError, match=rf"lengths - 1 = {length - 1}, must be in \[0, 12\)"):
        step(x, w, held, TABLE, np.array([10, length, 8]))


def test_a_block_in_use_that_is_not_there_is_refused() -> None:
    x, w, held = inputs()
    fewer = replace(held, k_cache=held.k_cache[:9], v_cache=held.v_cache[:9])

    with pytest.raises(ValueError, match=r"block_table = 9, must be in \[0, 9\)"):
        step(x, w, fewer)
