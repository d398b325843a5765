"""Prefill of Gated DeltaNet in NumPy: a prompt of one sequence, a chunk of tokens at a time.

Unrolling the recurrence over a chunk that starts from state S gives, with G_t the sum of g from
the chunk's first token to token t, and u_t the delta that token t writes:

    S_t = exp(G_t) S + sum over j <= t of exp(G_t - G_j) k_j u_j^T
    u_t = beta_t (v_t - exp(G_t) S^T k_t - sum over j < t of exp(G_t - G_j) (k_t . k_j) u_j)

The second line is a unit lower triangular system in u. No exponent is positive, so that nothing
overflows however strong the gates are.
"""

import numpy as np

from neuronfleet.kernels.deltanet.reference import gated_out, gates, split_heads, spread
from neuronfleet.kernels.numerics import Floats, check_range, silu, working


def delta_chunks(
    q: Floats,
    k: Floats,
    v: Floats,
    g: Floats,
    beta: Floats,
    state: Floats,
    slot: int,
    chunk: int = 64,
) -> Floats:
    """What `delta_step` gives for the tokens one after another; `state[slot]` moves past them.

    Args:
        q: [tokens, key_heads, key_dim], as the convolution leaves it.
        k: Likewise.
        v: [tokens, value_heads, value_dim].
        g: [tokens, value_heads], log decay.
        beta: [tokens, value_heads].
        state: [slots, value_heads, key_dim, value_dim].
        slot: The sequence's.
        chunk: Tokens solved at once; the last chunk may be shorter.

    Returns:
        o, [tokens, value_heads, value_dim].

    Raises:
        ValueError: the slot is not one of the state's.
    """
    check_range("slot", np.asarray([slot]), len(state))
    q, k, v, g, beta = working(q, k, v, g, beta)
    q, k = spread(q, k, v.shape[1])
    held = state[slot].astype(v.dtype)
    out = np.empty_like(v)
    for start in range(0, len(v), chunk):
        part = slice(start, start + chunk)
        rows = [np.swapaxes(array[part], 0, 1) for array in (q, k, v, g, beta)]
        o, held = _chunk(rows[0], rows[1], rows[2], rows[3], rows[4], held)
        out[part] = np.swapaxes(o, 0, 1)
    state[slot] = held
    return out


def _chunk(
    q: Floats, k: Floats, v: Floats, g: Floats, beta: Floats, held: Floats
) -> tuple[Floats, Floats]:
    """One chunk, heads first: [heads, tokens, dim] and [heads, tokens]; held is [heads, k, v]."""
    total = np.cumsum(g, axis=-1)
    lower = np.tril(np.ones((g.shape[-1], g.shape[-1]), dtype=bool))
    # Masked before exp: above the diagonal the exponent is positive and could overflow.
    between = np.exp(np.where(lower, total[..., :, None] - total[..., None, :], -np.inf))
    since_start = np.exp(total)[..., None]
    k_t = np.swapaxes(k, -1, -2)
    system = np.tril(beta[..., None] * between * (k @ k_t), -1)
    system += np.eye(g.shape[-1], dtype=g.dtype)
    written = np.linalg.solve(system, beta[..., None] * (v - since_start * (k @ held)))
    o = since_start * (q @ held) + between * (q @ k_t) @ written
    # exp(G_end - G_j) is the last row of `between`.
    left = k * between[..., -1, :, None]
    return o, since_start[..., -1:, :] * held + np.swapaxes(left, -1, -2) @ written


def conv_prefill(x: Floats, conv_weight: Floats, conv_state: Floats, slot: int) -> Floats:
    """What `conv_step` gives for the tokens one after another; `conv_state[slot]` moves past them.

    Args:
        x: [tokens, channels].
        conv_weight: [channels, taps].
        conv_state: [slots, channels, taps - 1].
        slot: The sequence's.

    Returns:
        [tokens, channels].

    Raises:
        ValueError: the slot is not one of the state's.
    """
    check_range("slot", np.asarray([slot]), len(conv_state))
    x, conv_weight = working(x, conv_weight)
    tokens, taps = len(x), conv_weight.shape[-1]
    seen = np.concatenate([conv_state[slot].T.astype(x.dtype), x])
    conv_state[slot] = seen[tokens:].T
    windows = np.lib.stride_tricks.sliding_window_view(seen, taps, axis=0)
    return silu(np.einsum("nct,ct->nc", windows, conv_weight))


def deltanet_prefill(
    x: Floats,
    w_qkv: Floats,
    w_z: Floats,
    w_b: Floats,
    w_a: Floats,
    conv_weight: Floats,
    a_log: Floats,
    dt_bias: Floats,
    norm_weight: Floats,
    w_out: Floats,
    state: Floats,
    conv_state: Floats,
    slot: int,
    eps: float = 1e-6,
    chunk: int = 64,
) -> Floats:
    """What `deltanet_step` gives for a sequence's tokens one after another, by chunks.

    Args:
        x: [tokens, hidden], after the layer's norm.
        w_qkv: This and the other weights and states as `deltanet_step` takes them.
        w_z: Likewise.
        w_b: Likewise.
        w_a: Likewise.
        conv_weight: Likewise.
        a_log: Likewise.
        dt_bias: Likewise.
        norm_weight: Likewise.
        w_out: Likewise.
        state: Likewise.
        conv_state: Likewise.
        slot: The sequence's. A new sequence's slot is zeroed by its owner first.
        eps: Of the norm.
        chunk: Tokens solved at once.

    Returns:
        y, [tokens, hidden].

    Raises:
        ValueError: the slot is not one of the states'.
    """
    x, w_qkv, w_z, w_b, w_a, w_out = working(x, w_qkv, w_z, w_b, w_a, w_out)
    mixed = conv_prefill(x @ w_qkv.T, conv_weight, conv_state, slot)
    q, k, v = split_heads(mixed, state)
    g, beta = gates(x @ w_a.T, x @ w_b.T, a_log, dt_bias)
    o = delta_chunks(q, k, v, g, beta, state, slot, chunk)
    return gated_out(o, x @ w_z.T, norm_weight, w_out, eps)
