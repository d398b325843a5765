"""How weights and paged keys and values of an attention layer lie on the device.

A block of one KV head is one tile of 128 partitions: on partition p the key dimensions p and
128 + p of all the block's tokens, then all dimensions of the value of token p. Keys so lie
transposed, as the stationary operand of q . k wants them, and values with tokens on partitions, as
the second product wants them. At 128 tokens, head_dim 256 and bfloat16 one descriptor brings a
partition 1 KiB, and a block is 128 KiB.
"""

import numpy as np

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import PARTITIONS, pack_stationary, unpack_stationary

BLOCK_SIZE = PARTITIONS
"""Tokens a block: a token a partition."""


def pack_blocks(k_cache: Floats, v_cache: Floats) -> Floats:
    """Keys and values of every block in one tensor.

    packed[n, h, p, c 128 + t] = k[n, t, h, 128 c + p] and
    packed[n, h, p, head_dim + d] = v[n, p, h, d].

    Args:
        k_cache: [blocks, 128, kv_heads, head_dim].
        v_cache: Likewise.

    Returns:
        [blocks, kv_heads, 128, 2 head_dim].

    Raises:
        ValueError: blocks are not of 128 tokens.
    """
    blocks, block_size, kv_heads, head_dim = k_cache.shape
    if block_size != BLOCK_SIZE:
        raise ValueError(f"block_size = {block_size}, must be {BLOCK_SIZE}")
    halves = k_cache.reshape(blocks, block_size, kv_heads, head_dim // PARTITIONS, PARTITIONS)
    keys = halves.transpose(0, 2, 4, 3, 1).reshape(blocks, kv_heads, PARTITIONS, head_dim)
    return np.concatenate([keys, v_cache.swapaxes(1, 2)], axis=-1)


def unpack_blocks(packed: Floats) -> tuple[Floats, Floats]:
    """Keys and values [blocks, 128, kv_heads, head_dim] from what `pack_blocks` gave."""
    keys, values = np.split(packed, 2, axis=-1)
    blocks, kv_heads, _partitions, head_dim = keys.shape
    halves = keys.reshape(blocks, kv_heads, PARTITIONS, head_dim // PARTITIONS, BLOCK_SIZE)
    k_cache = halves.transpose(0, 4, 1, 3, 2).reshape(blocks, BLOCK_SIZE, kv_heads, head_dim)
    return k_cache, np.ascontiguousarray(values.swapaxes(1, 2))


def pack_in(w_q: Floats, w_k: Floats, w_v: Floats) -> Floats:
    """Projections into the layer, [groups, 128, hidden / 128, 128].

    A head's group order at head_dim 256: query 0-127, query 128-255, gate 0-127, gate 128-255;
    after all heads the keys, then the values.
    """
    return pack_stationary(np.concatenate([w_q, w_k, w_v]))


def unpack_in(packed: Floats, kv_channels: int) -> tuple[Floats, Floats, Floats]:
    """w_q, w_k and w_v from what `pack_in` gave; kv_channels = kv_heads head_dim."""
    rows = unpack_stationary(packed, len(packed) * PARTITIONS)
    queries = len(rows) - 2 * kv_channels
    w_q, w_k, w_v = np.split(rows, (queries, queries + kv_channels))
    return w_q, w_k, w_v


def pack_out(w_o: Floats) -> Floats:
    """[hidden, heads head_dim] as stationary tiles [hidden / 128, 128, channels / 128, 128]."""
    return pack_stationary(w_o)


def unpack_out(packed: Floats) -> Floats:
    """[hidden, heads head_dim] from what `pack_out` gave."""
    return unpack_stationary(packed, len(packed) * PARTITIONS)
