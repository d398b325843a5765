"""Slices of tensor-parallel ranks: nothing lost, and what the ranks compute adds up."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from neuronfleet.kernels import sharding
from neuronfleet.kernels.deltanet.reference import deltanet_step
from neuronfleet.kernels.gqa.reference import gqa_step
from neuronfleet.kernels.lm_head.reference import greedy, lm_head_tile
from neuronfleet.kernels.moe.reference import moe
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.shapes import QWEN3_5_35B_A3B, ModelShape
from neuronfleet.kernels.sharding import Cuts, RankBank, cut, join
from tests.kernels.ops_inputs import (
    TINY,
    LazyBank,
    angles,
    attention_weights,
    close,
    deltanet_state,
    deltanet_weights,
    expert_weights,
    named,
    normal,
    pages,
)

RANKS = [1, 2, 4]


def of_rank(arrays: Mapping[str, Any], cuts: Cuts, rank: int, ranks: int) -> dict[str, Any]:
    return {name: cut(array, cuts[name], rank, ranks).copy() for name, array in arrays.items()}


def deltanet_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return named(deltanet_weights(rng, TINY), deltanet_state(rng, TINY, 5))


def gqa_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return named(attention_weights(rng, TINY), pages(rng, TINY, 6, 4))


def moe_arrays() -> dict[str, Any]:
    return named(expert_weights(np.random.default_rng(3), TINY))


def head_arrays() -> dict[str, Any]:
    return {"w_head": normal(np.random.default_rng(4), TINY.vocabulary, TINY.hidden)}


OPS = [
    (deltanet_arrays, sharding.deltanet_cuts),
    (gqa_arrays, sharding.gqa_cuts),
    (moe_arrays, sharding.moe_cuts),
    (head_arrays, sharding.lm_head_cuts),
]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("make", "cuts_of"), OPS)
def test_every_weight_and_state_comes_back_from_the_ranks(
    make: Callable[[], dict[str, Any]], cuts_of: Callable[[ModelShape], Cuts], ranks: int
) -> None:
    arrays, cuts = make(), cuts_of(TINY)

    assert set(arrays) == set(cuts)
    for name, array in arrays.items():
        held = [cut(array, cuts[name], rank, ranks) for rank in range(ranks)]
        assert np.array_equal(join(held, cuts[name]), array), name


@pytest.mark.parametrize("ranks", RANKS)
def test_deltanet_of_the_ranks_adds_up_and_their_states_are_slices_of_the_whole(
    ranks: int,
) -> None:
    whole, cuts = deltanet_arrays(), sharding.deltanet_cuts(TINY)
    held = [of_rank(whole, cuts, rank, ranks) for rank in range(ranks)]
    x, slots = np.random.default_rng(5).standard_normal((3, TINY.hidden)), np.array([4, 0, 2])
    y = deltanet_step(x, **whole, slots=slots)

    assert close(sum_of([deltanet_step(x, **arrays, slots=slots) for arrays in held]), y)
    for name in ("state", "conv_state"):
        joined = join([arrays[name] for arrays in held], cuts[name])
        assert np.allclose(joined, whole[name], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("ranks", RANKS)
def test_attention_of_the_ranks_adds_up_where_kv_heads_are_held_twice(ranks: int) -> None:
    whole, cuts = gqa_arrays(), sharding.gqa_cuts(TINY)
    held = [of_rank(whole, cuts, rank, ranks) for rank in range(ranks)]
    x, lengths = np.random.default_rng(6).standard_normal((2, TINY.hidden)), np.array([7, 3])
    cos, sin = angles(TINY, lengths)
    more: dict[str, Any] = {
        "cos": cos,
        "sin": sin,
        "block_table": np.array([[4, 1], [0, 3]]),
        "lengths": lengths,
    }
    y = gqa_step(x, **whole, **more)

    assert close(sum_of([gqa_step(x, **arrays, **more) for arrays in held]), y)
    for name in ("k_cache", "v_cache"):
        assert held[0][name].shape[2] == max(1, TINY.kv_heads // ranks)
        joined = join([arrays[name] for arrays in held], cuts[name])
        assert np.allclose(joined, whole[name], rtol=1e-12)


@pytest.mark.parametrize("ranks", RANKS)
def test_experts_of_the_ranks_add_up(ranks: int) -> None:
    whole, cuts = moe_arrays(), sharding.moe_cuts(TINY)
    x = np.random.default_rng(7).standard_normal((5, TINY.hidden))
    parts = [moe(x, **of_rank(whole, cuts, rank, ranks), top_k=4) for rank in range(ranks)]

    assert close(sum_of(parts), moe(x, **whole, top_k=4))


def test_full_size_experts_of_four_ranks_add_up_made_on_demand() -> None:
    s, rng = QWEN3_5_35B_A3B, np.random.default_rng(8)
    banks: dict[str, Any] = {
        "w_gate_up": LazyBank(1, 2 * s.expert_width, s.hidden),
        "w_down": LazyBank(2, s.hidden, s.expert_width),
    }
    arrays: dict[str, Any] = {
        "w_router": normal(rng, s.experts, s.hidden),
        "w_shared_gate_up": normal(rng, 2 * s.shared_width, s.hidden),
        "w_shared_down": normal(rng, s.hidden, s.shared_width),
        "w_shared_gate": normal(rng, 1, s.hidden),
    }
    cuts, x = sharding.moe_cuts(s), rng.standard_normal((1, s.hidden))
    parts = []
    for rank in range(4):
        mine: dict[str, Any] = {
            name: RankBank(bank, cuts[name], rank, 4) for name, bank in banks.items()
        }
        parts.append(moe(x, **of_rank(arrays, cuts, rank, 4), **mine))

    assert mine["w_gate_up"][255].shape == (2 * s.expert_width // 4, s.hidden)
    assert close(sum_of(parts), moe(x, **arrays, **banks))


def test_the_head_s_ranks_agree_on_the_token_that_the_whole_chooses() -> None:
    (w_head,), cuts = head_arrays().values(), sharding.lm_head_cuts(TINY)
    x = np.random.default_rng(9).standard_normal((4, TINY.hidden))
    tiles = [
        lm_head_tile(x, cut(w_head, cuts["w_head"], rank, 4), rank * TINY.vocabulary // 4)
        for rank in range(4)
    ]
    logits, _best, token = lm_head_tile(x, w_head)

    assert close(np.concatenate([t[0] for t in tiles], axis=1), logits)
    assert np.array_equal(greedy([t[1] for t in tiles], [t[2] for t in tiles]), token)


def test_a_rank_s_slices_have_the_sizes_of_its_shape() -> None:
    rank = TINY.ranked(4)
    arrays = of_rank(deltanet_arrays(), sharding.deltanet_cuts(TINY), 3, 4)
    attention = of_rank(gqa_arrays(), sharding.gqa_cuts(TINY), 3, 4)

    assert len(arrays["w_qkv"]) == len(arrays["conv_weight"]) == rank.conv_channels
    assert arrays["state"].shape[1:] == (rank.value_heads, rank.key_dim, rank.value_dim)
    assert len(attention["w_q"]) == 2 * rank.heads * rank.head_dim
    assert len(attention["w_k"]) == rank.kv_heads * rank.head_dim
    assert QWEN3_5_35B_A3B.ranked(4).kv_heads == 1
    assert QWEN3_5_35B_A3B.ranked(4).vocabulary == 62080


def test_ranks_that_disagree_on_what_they_share_are_refused() -> None:
    whole, how = gqa_arrays()["w_k"], sharding.gqa_cuts(TINY)["w_k"]
    held = [cut(whole, how, rank, 4).copy() for rank in range(4)]
    held[3][0, 0] += 1

    with pytest.raises(ValueError, match="rank = 3, must hold what rank 2 holds"):
        join(held, how)


@pytest.mark.parametrize("ranks", [3, 16])
def test_ranks_that_would_tear_a_head_are_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match=f"heads = 8, must divide by {ranks} ranks"):
        TINY.ranked(ranks)
    with pytest.raises(ValueError, match=f"must divide by {3} ranks or divide them"):
        cut(gqa_arrays()["w_q"], sharding.gqa_cuts(TINY)["w_q"], 0, 3)


def sum_of(parts: list[Floats]) -> Floats:
    total: Floats = np.sum(parts, axis=0)
    return total
