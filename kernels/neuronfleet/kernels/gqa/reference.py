"""One decode step of gated grouped-query attention over paged keys and values, in NumPy.

A sequence's tokens lie in blocks: token t of sequence b is row t % block_size of block
block_table[b, t // block_size]. Blocks past a sequence's length may hold anything, NaN included.
Rows that only pad the batch have length 1 and a block that no live sequence owns.
"""

import numpy as np

from neuronfleet.kernels.numerics import Floats, Ints, check_range, sigmoid, softmax, working
from neuronfleet.kernels.rmsnorm.reference import rmsnorm
from neuronfleet.kernels.rope.reference import rope


def project(
    x: Floats,
    w_q: Floats,
    w_k: Floats,
    w_v: Floats,
    q_norm: Floats,
    k_norm: Floats,
    cos: Floats,
    sin: Floats,
    eps: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Queries, gates, keys and values of tokens.

    Per query head W_q x = [q | gate]; q and k have a zero-centred RMSNorm over head_dim and then
    their first dimensions rotated. Shapes as `gqa_step` has them, a row a token.

    Returns:
        q and gate [n, heads, head_dim]; k and v [n, kv_heads, head_dim].
    """
    x, w_q, w_k, w_v = working(x, w_q, w_k, w_v)
    n, head_dim = len(x), len(q_norm)
    both = np.split((x @ w_q.T).reshape(n, -1, 2 * head_dim), 2, axis=-1)
    k = (x @ w_k.T).reshape(n, -1, head_dim)
    v = (x @ w_v.T).reshape(n, -1, head_dim)
    q = rope(rmsnorm(both[0], q_norm, eps, zero_centred=True), cos, sin)
    return q, both[1], rope(rmsnorm(k, k_norm, eps, zero_centred=True), cos, sin), v


def store(cache: Floats, rows: Floats, blocks: Ints, positions: Ints) -> None:
    """Write rows into the cache, in place and in its dtype.

    Args:
        cache: [blocks, block_size, kv_heads, head_dim].
        rows: [n, kv_heads, head_dim].
        blocks: [n] block of each row.
        positions: [n] position of each row in its sequence.

    Raises:
        ValueError: a block is not one of the cache's.
    """
    check_range("block_table", blocks, len(cache))
    cache[blocks, positions % cache.shape[1]] = rows


def attend(q: Floats, k_cache: Floats, v_cache: Floats, block_table: Ints, lengths: Ints) -> Floats:
    """Softmax attention of one query a sequence over its own tokens.

    o = sum over t < length of softmax_t(q . k_t / sqrt(head_dim)) v_t; query head h reads KV head
    h // (heads / kv_heads).

    Args:
        q: [batch, heads, head_dim], normed and rotated.
        k_cache: [blocks, block_size, kv_heads, head_dim].
        v_cache: Likewise.
        block_table: [batch, blocks a sequence].
        lengths: [batch] tokens of each sequence, the new one included; at least 1.

    Returns:
        [batch, heads, head_dim].

    Raises:
        ValueError: a length is not between 1 and what the table can hold, or a block that a
            sequence uses is not one of the cache's.
    """
    (q,) = working(q)
    block_size = k_cache.shape[1]
    check_range("lengths - 1", lengths - 1, block_table.shape[1] * block_size)
    out = np.empty_like(q)
    for row, length in enumerate(lengths.tolist()):
        used = block_table[row, : -(-length // block_size)]
        check_range("block_table", used, len(k_cache))
        # Gathered by block, then cut to the length: what lies beyond takes no part.
        k = k_cache[used].reshape(-1, *k_cache.shape[2:])[:length]
        v = v_cache[used].reshape(-1, *v_cache.shape[2:])[:length]
        out[row] = attend_rows(q[row], k, v)
    return out


def attend_rows(q: Floats, k: Floats, v: Floats) -> Floats:
    """Attention of one query over keys and values in a row.

    Args:
        q: [heads, head_dim].
        k: [tokens, kv_heads, head_dim].
        v: Likewise.

    Returns:
        [heads, head_dim].
    """
    q, k, v = working(q, k, v)
    kv_heads, head_dim = k.shape[1:]
    grouped = q.reshape(kv_heads, -1, head_dim)
    scores = np.einsum("ghd,tgd->ght", grouped, k) / np.sqrt(np.asarray(head_dim, dtype=q.dtype))
    mixed: Floats = np.einsum("ght,tgd->ghd", softmax(scores), v)
    return mixed.reshape(q.shape)


def gqa_step(
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
    block_table: Ints,
    lengths: Ints,
    eps: float = 1e-6,
) -> Floats:
    """A whole attention layer for one token a sequence; both caches take its key and value.

    y = W_o [attend(q, K, V) sigmoid(gate)], K and V with the new token at position length - 1.
    With the weights of one tensor-parallel rank, y is that rank's term of the sum.

    Args:
        x: [batch, hidden], after the layer's norm.
        w_q: [heads 2 head_dim, hidden]; each head's query rows, then its gate rows.
        w_k: [kv_heads head_dim, hidden].
        w_v: Likewise.
        q_norm: [head_dim], zero-centred.
        k_norm: Likewise.
        w_o: [hidden, heads head_dim].
        cos: [batch, rotary_dim / 2] at position length - 1.
        sin: Likewise.
        k_cache: [blocks, block_size, kv_heads, head_dim].
        v_cache: Likewise.
        block_table: [batch, blocks a sequence].
        lengths: [batch], the new token included.
        eps: Of the norms.

    Returns:
        y, [batch, hidden].

    Raises:
        ValueError: as `attend` does.
    """
    q, gate, k, v = project(x, w_q, w_k, w_v, q_norm, k_norm, cos, sin, eps)
    positions = lengths - 1
    check_range("lengths - 1", positions, block_table.shape[1] * k_cache.shape[1])
    blocks = np.take_along_axis(block_table, positions[:, None] // k_cache.shape[1], axis=1)[:, 0]
    store(k_cache, k, blocks, positions)
    store(v_cache, v, blocks, positions)
    o = attend(q, k_cache, v_cache, block_table, lengths) * sigmoid(gate)
    gated, w_o = working(o.reshape(len(o), -1), w_o)
    return gated @ w_o.T
