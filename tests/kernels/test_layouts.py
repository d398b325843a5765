"""Packed for the device and back: nothing lost, and every number where the layout says."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.kernels import tiles
from neuronfleet.kernels.deltanet import layout as deltanet
from neuronfleet.kernels.gqa import layout as gqa
from neuronfleet.kernels.lm_head import layout as lm_head
from neuronfleet.kernels.moe import layout as moe
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.rmsnorm import layout as rmsnorm
from neuronfleet.kernels.rope import layout as rope
from neuronfleet.kernels.router import layout as router

BF16 = ml_dtypes.bfloat16


def numbers(*shape: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(BF16)


def same(left: Floats, right: Floats) -> bool:
    return left.dtype == right.dtype and np.array_equal(left, right)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.integers(1, 4), st.sampled_from([1, 16, 100, 128]))
def test_stationary_tiles_come_back_whatever_the_rows(rows: int, chunks: int, group: int) -> None:
    weight = numbers(rows, 128 * chunks)
    packed = tiles.pack_stationary(weight, group)

    assert packed.shape == (-(-rows // group), 128, chunks, group)
    assert packed.flags.c_contiguous
    assert same(tiles.unpack_stationary(packed, rows), weight)


def test_a_stationary_tile_contracts_over_partitions_to_the_matrix_product() -> None:
    weight, x = np.random.default_rng(1).standard_normal((300, 256)), np.arange(256.0)
    packed = tiles.pack_stationary(weight)
    # What the tensor engine does: stationary^T moving, accumulated over chunks.
    chunks = tiles.pack_columns(x)
    product = sum(packed[:, :, c].swapaxes(1, 2) @ chunks[:, c] for c in range(2))

    assert np.allclose(np.asarray(product).reshape(-1)[:300], weight @ x)
    assert not np.asarray(product).reshape(-1)[300:].any()
    assert packed[1, 7, 1, 3] == weight[128 + 3, 128 + 7]


@pytest.mark.parametrize("columns", [64, 129])
def test_columns_that_do_not_fill_partitions_are_refused(columns: int) -> None:
    with pytest.raises(ValueError, match=f"columns = {columns}, must be a multiple of 128"):
        tiles.pack_stationary(numbers(4, columns))
    with pytest.raises(ValueError, match=f"length = {columns}, must be a multiple of 128"):
        tiles.pack_columns(numbers(columns))


def test_small_ops_come_back() -> None:
    gain, head = numbers(2048), numbers(1000, 256)
    cos, sin = numbers(10, 32), numbers(10, 32, seed=2)
    w_router = numbers(256, 512)
    tables = rope.unpack_tables(rope.pack_tables(cos, sin))

    assert rmsnorm.pack_weight(gain)[5, 3] == gain[3 * 128 + 5]
    assert same(rmsnorm.unpack_weight(rmsnorm.pack_weight(gain)), gain)
    assert same(tables[0], cos)
    assert same(tables[1], sin)
    assert router.pack_router(w_router).shape == (128, 4, 256)
    assert router.pack_router(w_router)[9, 2, 200] == w_router[200, 2 * 128 + 9]
    assert same(router.unpack_router(router.pack_router(w_router)), w_router)
    assert lm_head.pack_head(head).shape == (8, 128, 2, 128)
    assert same(lm_head.unpack_head(lm_head.pack_head(head), 1000), head)


def test_deltanet_weights_of_a_rank_come_back() -> None:
    w_qkv, w_z = numbers(2048, 2048), numbers(1024, 2048, seed=2)
    w_b, w_a = numbers(8, 2048, seed=3), numbers(8, 2048, seed=4)
    wide, narrow = deltanet.pack_in(w_qkv, w_z, w_b, w_a)
    back = deltanet.unpack_in(wide, narrow, value_channels=1024)
    conv, out = numbers(2048, 4), numbers(2048, 1024)

    assert (wide.shape, narrow.shape) == ((24, 128, 16, 128), (128, 16, 16))
    assert all(same(b, w) for b, w in zip(back, (w_qkv, w_z, w_b, w_a), strict=True))
    assert deltanet.pack_conv(conv)[5, 3, 1] == conv[3 * 128 + 5, 1]
    assert same(deltanet.unpack_conv(deltanet.pack_conv(conv)), conv)
    assert same(deltanet.unpack_out(deltanet.pack_out(out)), out)


def test_deltanet_states_come_back_and_lie_with_key_dimensions_on_partitions() -> None:
    state = np.random.default_rng(1).standard_normal((3, 8, 128, 128)).astype(np.float32)
    tail = numbers(3, 2048, 3)
    packed, packed_tail = deltanet.pack_state(state), deltanet.pack_conv_state(tail)

    assert packed[2, 100, 5, 7] == state[2, 5, 100, 7]
    assert same(deltanet.unpack_state(packed), state)
    assert packed_tail[1, 9, 2, 11] == tail[1, 11 * 128 + 9, 2]
    assert same(deltanet.unpack_conv_state(packed_tail), tail)


def test_attention_weights_and_blocks_come_back() -> None:
    w_q, w_k, w_v = numbers(2048, 512), numbers(256, 512, seed=2), numbers(256, 512, seed=3)
    k_cache, v_cache = numbers(5, 128, 2, 256), numbers(5, 128, 2, 256, seed=2)
    packed = gqa.pack_blocks(k_cache, v_cache)
    keys, values = gqa.unpack_blocks(packed)
    w_o = numbers(512, 1024)

    assert packed.shape == (5, 2, 128, 512)
    assert packed[3, 1, 100, 128 + 17] == k_cache[3, 17, 1, 128 + 100]
    assert packed[3, 1, 100, 256 + 200] == v_cache[3, 100, 1, 200]
    assert same(keys, k_cache)
    assert same(values, v_cache)
    back = gqa.unpack_in(gqa.pack_in(w_q, w_k, w_v), kv_channels=256)
    assert all(same(b, w) for b, w in zip(back, (w_q, w_k, w_v), strict=True))
    assert same(gqa.unpack_out(gqa.pack_out(w_o)), w_o)


def test_a_block_s_keys_are_the_stationary_operand_of_its_scores() -> None:
    rng = np.random.default_rng(1)
    k, v = rng.standard_normal((1, 128, 1, 256)), rng.standard_normal((1, 128, 1, 256))
    q = rng.standard_normal(256)
    tile = gqa.pack_blocks(k, v)[0, 0]
    scores = tile[:, :128].T @ q[:128] + tile[:, 128:256].T @ q[128:]

    assert np.allclose(scores, k[0, :, 0] @ q)
    # Scores have tokens on partitions, as the values of the tile do.
    assert np.allclose(scores @ tile[:, 256:], scores @ v[0, :, 0])


def test_blocks_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="block_size = 32, must be 128"):
        gqa.pack_blocks(numbers(1, 32, 1, 256), numbers(1, 32, 1, 256))


@pytest.mark.parametrize("width", [16, 128, 512])
def test_an_expert_comes_back(width: int) -> None:
    w_gate_up, w_down = numbers(2 * width, 256), numbers(256, width)
    packed = moe.pack_expert(w_gate_up, w_down)
    back = moe.unpack_expert(packed, 256, width)

    assert packed.shape == (128, 2 * width * 2 + -(-width // 128) * 256)
    assert packed.flags.c_contiguous
    assert same(back[0], w_gate_up)
    assert same(back[1], w_down)


def test_a_rank_s_expert_lies_as_its_design_says() -> None:
    w_gate_up, w_down = numbers(256, 2048), numbers(2048, 128)
    packed = moe.pack_expert(w_gate_up, w_down)

    # Gate tile, up tile, then down with the intermediate axis on partitions.
    assert packed.shape == (128, 6144)
    assert packed[9, 3 * 128 + 5] == w_gate_up[5, 3 * 128 + 9]
    assert packed[9, 2048 + 3 * 128 + 5] == w_gate_up[128 + 5, 3 * 128 + 9]
    assert packed[9, 4096 + 3 * 128 + 5] == w_down[3 * 128 + 5, 9]


def test_an_expert_width_that_does_not_tile_is_refused() -> None:
    with pytest.raises(ValueError, match="width = 192, must be at most 128 or a multiple of it"):
        moe.pack_expert(numbers(384, 256), numbers(256, 192))
