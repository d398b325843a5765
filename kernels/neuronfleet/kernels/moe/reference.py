"""A mixture of experts in NumPy: router, routed experts, shared expert."""

from typing import Protocol

import numpy as np

from neuronfleet.kernels.numerics import Floats, Ints, sigmoid, silu, working
from neuronfleet.kernels.router.reference import route


class ExpertBank(Protocol):
    """Matrices by expert: an array [experts, rows, columns], or one that makes them on demand."""

    def __getitem__(self, expert: int, /) -> Floats:
        """The matrix of one expert."""
        ...


def swiglu(x: Floats, w_gate_up: Floats, w_down: Floats) -> Floats:
    """W_down [silu(W_gate x) (W_up x)].

    Args:
        x: [n, hidden].
        w_gate_up: [2 width, hidden]: gate rows, then up rows.
        w_down: [hidden, width].

    Returns:
        [n, hidden].
    """
    x, w_gate_up, w_down = working(x, w_gate_up, w_down)
    gate, up = np.split(x @ w_gate_up.T, 2, axis=-1)
    return (silu(gate) * up) @ w_down.T


def selected_experts(
    x: Floats, ids: Ints, weights: Floats, w_gate_up: ExpertBank, w_down: ExpertBank
) -> Floats:
    """The routed experts' weighted sum; only experts that a token chose are read.

    y = sum over i of weights_i swiglu(x, expert ids_i).

    Args:
        x: [tokens, hidden].
        ids: [tokens, top_k].
        weights: [tokens, top_k].
        w_gate_up: [2 width, hidden] by expert.
        w_down: [hidden, width] by expert.

    Returns:
        [tokens, hidden].
    """
    x, weights = working(x, weights)
    out = np.zeros_like(x)
    for expert in np.unique(ids).tolist():
        token, place = np.nonzero(ids == expert)
        y = swiglu(x[token], w_gate_up[expert], w_down[expert])
        # A token has an expert at most once, so that no row is added to twice here.
        out[token] += weights[token, place, None] * y
    return out


def moe(
    x: Floats,
    w_router: Floats,
    w_gate_up: ExpertBank,
    w_down: ExpertBank,
    w_shared_gate_up: Floats,
    w_shared_down: Floats,
    w_shared_gate: Floats,
    top_k: int = 8,
) -> Floats:
    """A whole mixture-of-experts layer.

    y = selected_experts(x) + sigmoid(w_shared_gate . x) swiglu(x, shared expert).
    With the expert slices of one tensor-parallel rank, and router and shared gate whole, y is that
    rank's term of the sum.

    Args:
        x: [tokens, hidden], after the layer's norm.
        w_router: [experts, hidden].
        w_gate_up: [2 width, hidden] by expert: gate rows, then up rows.
        w_down: [hidden, width] by expert.
        w_shared_gate_up: [2 shared_width, hidden].
        w_shared_down: [hidden, shared_width].
        w_shared_gate: [1, hidden].
        top_k: Experts a token.

    Returns:
        y, [tokens, hidden].
    """
    ids, weights = route(x, w_router, top_k)
    x, w_shared_gate = working(x, w_shared_gate)
    shared = swiglu(x, w_shared_gate_up, w_shared_down)
    return selected_experts(x, ids, weights, w_gate_up, w_down) + shared * sigmoid(
        x @ w_shared_gate.T
    )
