"""Prefill of gated grouped-query attention in NumPy: tokens of one sequence after those cached."""

import numpy as np

from neuronfleet.kernels.gqa.reference import attend_rows, project, store
from neuronfleet.kernels.numerics import Floats, Ints, check_range, sigmoid, working


def gqa_prefill(
    x: Floats,
    w_q: Floats,
    w_k: Floats,
    w_v: Floats,
    q_norm: Floats,
    k_norm: Floats,
    w_o: Floats,
    cos: Floats,
    sin: Floats,
    k_cache: Floats,
    v_cache: Floats,
    blocks: Ints,
    start: int,
    eps: float = 1e-6,
) -> Floats:
    """What `gqa_step` gives for a sequence's tokens one after another.

    Args:
        x: [tokens, hidden], after the layer's norm; positions start, start + 1, ...
        w_q: This and the other weights and caches as `gqa_step` takes them.
        w_k: Likewise.
        w_v: Likewise.
        q_norm: Likewise.
        k_norm: Likewise.
        w_o: Likewise.
        cos: [tokens, rotary_dim / 2].
        sin: Likewise.
        k_cache: [blocks, block_size, kv_heads, head_dim].
        v_cache: Likewise.
        blocks: [blocks of the sequence].
        start: Tokens already in the cache.
        eps: Of the norms.

    Returns:
        y, [tokens, hidden].

    Raises:
        ValueError: the tokens do not fit the blocks, or a block is not one of the cache's.
    """
    q, gate, k, v = project(x, w_q, w_k, w_v, q_norm, k_norm, cos, sin, eps)
    positions = np.arange(start, start + len(x))
    block_size = k_cache.shape[1]
    check_range("positions", positions, len(blocks) * block_size)
    store(k_cache, k, blocks[positions // block_size], positions)
    store(v_cache, v, blocks[positions // block_size], positions)
    used = blocks[: -(-(start + len(x)) // block_size)]
    check_range("block_table", used, len(k_cache))
    keys = k_cache[used].reshape(-1, *k_cache.shape[2:])
    values = v_cache[used].reshape(-1, *v_cache.shape[2:])
    o = np.stack(
        [attend_rows(q[i], keys[: p + 1], values[: p + 1]) for i, p in enumerate(positions)]
    )
    gated, w_o = working((o * sigmoid(gate)).reshape(len(x), -1), w_o)
    return gated @ w_o.T
