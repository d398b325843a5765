import math

import numpy as np

from neuronfleet.kernels.moe.reference import moe, selected_experts, swiglu
from neuronfleet.kernels.router.reference import route
from neuronfleet.kernels.shapes import QWEN3_5_35B_A3B
from tests.kernels.ops_inputs import (
    TINY,
    LazyBank,
    as_dtype,
    close,
    expert_weights,
    named,
    normal,
)


def test_a_scalar_expert_worked_by_hand() -> None:
    got = swiglu(np.array([[2.0]]), np.array([[0.5], [3.0]]), np.array([[-1.0]]))

    # gate = 1, up = 6: -1 * silu(1) * 6
    assert got[0, 0] == -6 / (1 + math.exp(-1))


def test_the_layer_is_the_sum_over_all_experts_of_which_most_weigh_nothing() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((5, TINY.hidden)), expert_weights(rng, TINY)
    got = moe(x, **named(w), top_k=TINY.experts_per_token)

    for token, row in enumerate(x):
        logits = w.w_router @ row
        p = np.exp(logits - logits.max())
        p[np.argsort(p)[:-4]] = 0
        total = np.zeros(TINY.hidden)
        for expert in range(TINY.experts):
            gate, up = np.split(w.w_gate_up[expert] @ row, 2)
            share = p[expert] / p.sum()
            total += share * (w.w_down[expert] @ (gate / (1 + np.exp(-gate)) * up))
        gate, up = np.split(w.w_shared_gate_up @ row, 2)
        shared = w.w_shared_down @ (gate / (1 + np.exp(-gate)) * up)
        total += shared / (1 + math.exp(-float(w.w_shared_gate[0] @ row)))
        assert np.allclose(got[token], total, rtol=1e-11)


def test_batch_order_and_the_naming_of_experts_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((8, TINY.hidden)), expert_weights(rng, TINY)
    y, order = moe(x, **named(w), top_k=4), rng.permutation(8)
    renamed = rng.permutation(TINY.experts)
    again = moe(
        x,
        w_router=w.w_router[renamed],
        w_gate_up=np.stack([w.w_gate_up[e] for e in renamed]),
        w_down=np.stack([w.w_down[e] for e in renamed]),
        w_shared_gate_up=w.w_shared_gate_up,
        w_shared_down=w.w_shared_down,
        w_shared_gate=w.w_shared_gate,
        top_k=4,
    )

    assert close(np.concatenate([moe(row[None], **named(w), top_k=4) for row in x]), y)
    assert close(moe(x[order], **named(w), top_k=4), y[order])
    assert close(again, y)


def test_experts_that_nobody_chose_are_never_read() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, TINY.hidden)), expert_weights(rng, TINY)
    ids, _weights = route(x, w.w_router, 4)
    y = moe(x, **named(w), top_k=4)
    for expert in np.setdiff1d(np.arange(TINY.experts), ids).tolist():
        w.w_gate_up[expert][:], w.w_down[expert][:] = np.nan, np.nan

    assert np.array_equal(moe(x, **named(w), top_k=4), y)


def test_a_token_of_nan_or_of_huge_numbers_changes_no_other() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((4, TINY.hidden)), expert_weights(rng, TINY)
    y = moe(x, **named(w), top_k=4)
    x[0], x[2] = np.nan, 1e6 * x[2]
    got = moe(x, **named(w), top_k=4)

    assert close(got[[1, 3]], y[[1, 3]])
    assert np.isfinite(got[2]).all()


def test_gates_of_experts_at_their_extremes_switch_and_do_not_overflow() -> None:
    x = np.ones((1, 1), dtype=np.float32)
    down = np.ones((1, 1), dtype=np.float32)

    def gated(gate: float) -> float:
        return float(swiglu(x, np.array([[gate], [2.0]], dtype=np.float32), down)[0, 0])

    assert (gated(-1e4), gated(1e4)) == (0, 2e4)


def test_full_size_experts_are_made_only_as_they_are_routed_to() -> None:
    s = QWEN3_5_35B_A3B
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, s.hidden))
    w_router = normal(rng, s.experts, s.hidden)
    gate_up, down = LazyBank(6, 2 * s.expert_width, s.hidden), LazyBank(7, s.hidden, s.expert_width)
    ids, weights = route(x, w_router, 8)
    got = selected_experts(x, ids, weights, gate_up, down)
    by_hand = sum(
        weights[0, i] * swiglu(x, gate_up[int(e)], down[int(e)]) for i, e in enumerate(ids[0])
    )
    narrow_inputs = (as_dtype(x, np.float32), ids, as_dtype(weights, np.float32))
    narrow = selected_experts(*narrow_inputs, gate_up, down)

    assert close(got, np.asarray(by_hand))
    assert narrow.dtype == np.float32
    assert close(narrow.astype(np.float64), got, 1e-5)
