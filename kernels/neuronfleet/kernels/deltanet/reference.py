"""One decode step of Gated DeltaNet in NumPy: the state update alone, and the whole layer.

State lives in slots: a row of `slots` says which one a sequence owns. Slots of live sequences are
distinct. Rows that only pad the batch share one scratch slot, whose contents mean nothing.
"""

import numpy as np

from neuronfleet.kernels.numerics import (
    Floats,
    Ints,
    check_range,
    sigmoid,
    silu,
    softplus,
    working,
)
from neuronfleet.kernels.rmsnorm.reference import rmsnorm

UNIT_EPS = 1e-6
"""Added to the sum of squares of a query or key; the model's own, whatever its norms use."""


def unit(x: Floats) -> Floats:
    """Vectors of the last axis at length 1: x / sqrt(sum(x^2) + 1e-6)."""
    return np.asarray(x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + UNIT_EPS), dtype=x.dtype)


def gates(a: Floats, b: Floats, a_log: Floats, dt_bias: Floats) -> tuple[Floats, Floats]:
    """Log decay g = -exp(a_log) softplus(a + dt_bias) <= 0 and step size beta = sigmoid(b).

    Args:
        a: [..., value_heads].
        b: Likewise.
        a_log: [value_heads].
        dt_bias: [value_heads].

    Returns:
        g and beta, [..., value_heads].
    """
    a, b, a_log, dt_bias = working(a, b, a_log, dt_bias)
    return -np.exp(a_log) * softplus(a + dt_bias), sigmoid(b)


def delta_step(
    q: Floats, k: Floats, v: Floats, g: Floats, beta: Floats, state: Floats, slots: Ints
) -> Floats:
    """The state update of one token a sequence; `state` changes in place, in its own dtype.

    Per value head h, whose key head is h // (value_heads / key_heads), with q and k at unit length
    and q further over sqrt(key_dim):
    S = exp(g) S;  delta = beta (v - k^T S);  S = S + k delta^T;  o = q^T S.

    Args:
        q: [batch, key_heads, key_dim], as the convolution leaves it.
        k: Likewise.
        v: [batch, value_heads, value_dim].
        g: [batch, value_heads], log decay.
        beta: [batch, value_heads].
        state: [slots, value_heads, key_dim, value_dim], float32 on the device.
        slots: [batch] slot of each sequence.

    Returns:
        o, [batch, value_heads, value_dim].

    Raises:
        ValueError: a slot is not one of the state's.
    """
    check_range("slots", slots, len(state))
    q, k, v, g, beta = working(q, k, v, g, beta)
    q, k = spread(q, k, v.shape[1])
    held = state[slots].astype(v.dtype) * np.exp(g)[..., None, None]
    read = np.einsum("bhk,bhkv->bhv", k, held)
    delta = beta[..., None] * (v - read)
    held += k[..., :, None] * delta[..., None, :]
    state[slots] = held
    o: Floats = np.einsum("bhk,bhkv->bhv", q, held)
    return o


def spread(q: Floats, k: Floats, value_heads: int) -> tuple[Floats, Floats]:
    """Queries and keys as the update uses them: unit length, scaled, one for each value head.

    Args:
        q: [n, key_heads, key_dim].
        k: Likewise.
        value_heads: A multiple of key_heads.

    Returns:
        Two of [n, value_heads, key_dim].
    """
    repeats = value_heads // q.shape[1]
    scale = np.sqrt(np.asarray(q.shape[-1], dtype=q.dtype))
    return np.repeat(unit(q) / scale, repeats, axis=1), np.repeat(unit(k), repeats, axis=1)


def conv_step(x: Floats, conv_weight: Floats, conv_state: Floats, slots: Ints) -> Floats:
    """Depthwise causal convolution of one token a sequence, then SiLU; the state shifts in place.

    y[c] = silu(sum over i < taps of weight[c, i] * window[c, i]), window = past inputs, oldest
    first, then x.

    Args:
        x: [batch, channels].
        conv_weight: [channels, taps].
        conv_state: [slots, channels, taps - 1], the inputs before x, oldest first.
        slots: [batch].

    Returns:
        [batch, channels].

    Raises:
        ValueError: a slot is not one of the state's.
    """
    check_range("slots", slots, len(conv_state))
    x, conv_weight = working(x, conv_weight)
    window = np.concatenate([conv_state[slots].astype(x.dtype), x[..., None]], axis=-1)
    conv_state[slots] = window[..., 1:]
    return silu(np.einsum("bct,ct->bc", window, conv_weight))


def deltanet_step(
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
    slots: Ints,
    eps: float = 1e-6,
) -> Floats:
    """A whole DeltaNet layer for one token a sequence; both states change in place.

    [q k v] = conv(W_qkv x); g, beta = gates(W_a x, W_b x); o = delta_step(q, k, v, g, beta);
    y = W_out [rmsnorm(o) silu(W_z x)], the norm over each value head with a plain gain.
    With the weights of one tensor-parallel rank, y is that rank's term of the sum.

    Args:
        x: [batch, hidden], after the layer's norm.
        w_qkv: [2 key_heads key_dim + value_heads value_dim, hidden]: queries, keys, values.
        w_z: [value_heads value_dim, hidden].
        w_b: [value_heads, hidden].
        w_a: [value_heads, hidden].
        conv_weight: [channels, taps], channels as rows of w_qkv.
        a_log: [value_heads].
        dt_bias: [value_heads].
        norm_weight: [value_dim].
        w_out: [hidden, value_heads value_dim].
        state: [slots, value_heads, key_dim, value_dim].
        conv_state: [slots, channels, taps - 1].
        slots: [batch].
        eps: Of the norm.

    Returns:
        y, [batch, hidden].

    Raises:
        ValueError: a slot is not one of the states'.
    """
    x, w_qkv, w_z, w_b, w_a, w_out = working(x, w_qkv, w_z, w_b, w_a, w_out)
    mixed = conv_step(x @ w_qkv.T, conv_weight, conv_state, slots)
    q, k, v = split_heads(mixed, state)
    g, beta = gates(x @ w_a.T, x @ w_b.T, a_log, dt_bias)
    o = delta_step(q, k, v, g, beta, state, slots)
    return gated_out(o, x @ w_z.T, norm_weight, w_out, eps)


def split_heads(mixed: Floats, state: Floats) -> tuple[Floats, Floats, Floats]:
    """Queries, keys and values of convolved channels; head counts follow from the state's shape.

    Args:
        mixed: [n, channels].
        state: [slots, value_heads, key_dim, value_dim].

    Returns:
        [n, key_heads, key_dim] twice and [n, value_heads, value_dim].
    """
    rows, (value_heads, key_dim, value_dim) = len(mixed), state.shape[1:]
    key_width = (mixed.shape[-1] - value_heads * value_dim) // 2
    q, k, v = np.split(mixed, (key_width, 2 * key_width), axis=-1)
    keys = (rows, key_width // key_dim, key_dim)
    return q.reshape(keys), k.reshape(keys), v.reshape(rows, value_heads, value_dim)


def gated_out(o: Floats, z: Floats, norm_weight: Floats, w_out: Floats, eps: float) -> Floats:
    """The end of the layer: W_out [rmsnorm(o) silu(z)].

    Args:
        o: [n, value_heads, value_dim].
        z: [n, value_heads value_dim].
        norm_weight: [value_dim].
        w_out: [hidden, value_heads value_dim].
        eps: Of the norm.

    Returns:
        [n, hidden].
    """
    normed = rmsnorm(o, norm_weight, eps) * silu(z.reshape(o.shape))
    flat, w_out = working(normed.reshape(len(o), -1), w_out)
    return flat @ w_out.T
