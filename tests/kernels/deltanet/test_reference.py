import math
from dataclasses import replace

import numpy as np
import pytest

from neuronfleet.kernels.deltanet.reference import conv_step, delta_step, deltanet_step, gates
from neuronfleet.kernels.models.blocks import DeltaNetState
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.weights import DeltaNetWeights
from tests.kernels.ops_inputs import (
    TINY,
    as_dtype,
    close,
    deltanet_state,
    deltanet_weights,
    named,
    normal,
)

SLOTS = np.array([4, 0, 2])


def inputs(seed: int = 1, batch: int = 3) -> tuple[Floats, DeltaNetWeights, DeltaNetState]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, TINY.hidden))
    return x, deltanet_weights(rng, TINY), deltanet_state(rng, TINY, 9)


def step(x: Floats, w: DeltaNetWeights, held: DeltaNetState, slots: object = SLOTS) -> Floats:
    return deltanet_step(x, **named(w, held), slots=np.asarray(slots))


def test_one_head_worked_by_the_loops_of_the_definition() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal(4) for _ in range(3))
    g, beta, s = -0.3, 0.7, rng.standard_normal((4, 4))
    held = s[None, None].copy()
    o = delta_step(
        q[None, None],
        k[None, None],
        v[None, None],
        np.array([[g]]),
        np.array([[beta]]),
        held,
        np.array([0]),
    )

    unit_k = k / math.sqrt((k**2).sum() + 1e-6)
    unit_q = q / math.sqrt((q**2).sum() + 1e-6) / 2
    for j in range(4):
        decayed = [math.exp(g) * s[i, j] for i in range(4)]
        delta = beta * (v[j] - sum(unit_k[i] * decayed[i] for i in range(4)))
        column = [decayed[i] + unit_k[i] * delta for i in range(4)]
        assert held[0, 0, :, j].tolist() == pytest.approx(column, rel=1e-13)
        read = sum(unit_q[i] * column[i] for i in range(4))
        assert o[0, 0, j] == pytest.approx(read, rel=1e-13)


def test_value_heads_in_a_row_share_a_key_head() -> None:
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((1, 2, 8)), rng.standard_normal((1, 2, 8))
    v = np.repeat(rng.standard_normal((1, 1, 8)), 4, axis=1)
    g, beta, held = np.full((1, 4), -1.0), np.full((1, 4), 0.5), np.zeros((1, 4, 8, 8))
    o = delta_step(q, k, v, g, beta, held, np.array([0]))

    assert np.array_equal(o[0, 0], o[0, 1])
    assert np.array_equal(o[0, 2], o[0, 3])
    assert not np.allclose(o[0, 1], o[0, 2])


def test_a_full_step_writes_what_the_next_read_of_the_same_key_returns() -> None:
    # beta = 1 replaces the value at the key: k^T S = v, but for the 1e-6 under the root.
    rng = np.random.default_rng(4)
    k, v = rng.standard_normal((1, 1, 128)), rng.standard_normal((1, 1, 128))
    held = rng.standard_normal((1, 1, 128, 128))
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    o = delta_step(k, k, v, zero, one, held, np.array([0]))

    assert close(o * math.sqrt(128), v, 1e-6)


def test_gates_worked_by_hand_and_at_their_extremes() -> None:
    g, beta = gates(np.array([[0.5]]), np.array([[-2.0]]), np.array([0.2]), np.array([0.1]))
    a = np.array([[-1e4, 1e4, 0.0]])
    extreme_g, extreme_beta = gates(a, a, np.zeros(3), np.zeros(3))

    assert g[0, 0] == pytest.approx(-math.exp(0.2) * math.log(1 + math.exp(0.6)), rel=1e-15)
    assert beta[0, 0] == pytest.approx(1 / (1 + math.exp(2)), rel=1e-15)
    assert extreme_g[0].tolist() == pytest.approx([0, -1e4, -math.log(2)])
    assert extreme_beta[0].tolist() == [0, 1, 0.5]


def test_a_strong_gate_forgets_everything_and_a_closed_step_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, 8)) for _ in range(3))
    kept = rng.standard_normal((1, 1, 8, 8))
    forgotten, fresh = kept.copy(), np.zeros_like(kept)
    before = kept.copy()
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    delta_step(q, k, v, -1e4 * one, one, forgotten, np.array([0]))
    delta_step(q, k, v, zero, one, fresh, np.array([0]))
    delta_step(q, k, v, zero, zero, kept, np.array([0]))

    assert np.array_equal(forgotten, fresh)
    assert np.array_equal(kept, before)


def test_convolution_over_steps_is_the_sum_over_past_inputs() -> None:
    rng = np.random.default_rng(6)
    weight, tail = rng.standard_normal((5, 4)), np.zeros((2, 5, 3))
    seen = rng.standard_normal((6, 5))
    got = np.stack([conv_step(x[None], weight, tail, np.array([1]))[0] for x in seen])

    for t in range(6):
        for c in range(5):
            total = sum(weight[c, 3 - back] * seen[t - back, c] for back in range(min(t, 3) + 1))
            assert got[t, c] == pytest.approx(total / (1 + math.exp(-total)), rel=1e-12)
    assert np.array_equal(tail[1], seen[3:].T)
    assert not tail[0].any()


def test_batch_and_order_do_not_matter() -> None:
    x, w, held = inputs()
    alone, turned = as_dtype(held, np.float64), as_dtype(held, np.float64)
    y = step(x, w, held)
    one_by_one = [step(x[i : i + 1], w, alone, SLOTS[i : i + 1]) for i in range(3)]
    order = [2, 0, 1]

    assert close(np.concatenate(one_by_one), y)
    assert close(step(x[order], w, turned, SLOTS[order]), y[order])
    assert close(alone.state, held.state)
    assert close(turned.state, held.state)
    assert np.allclose(turned.conv_state, held.conv_state, rtol=1e-12)


def test_other_slots_are_left_as_they_were_nan_included_and_none_of_it_leaks() -> None:
    x, w, held = inputs()
    poisoned = as_dtype(held, np.float64)
    unused = np.setdiff1d(np.arange(9), SLOTS)
    poisoned.state[unused], poisoned.conv_state[unused] = np.nan, np.nan

    assert np.array_equal(step(x, w, poisoned), step(x, w, held))
    assert np.array_equal(poisoned.state[SLOTS], held.state[SLOTS])
    assert np.isnan(poisoned.state[unused]).all()
    assert np.isnan(poisoned.conv_state[unused]).all()


def test_padding_rows_may_share_a_scratch_slot_of_nan() -> None:
    x, w, held = inputs(batch=4)
    held.state[7], held.conv_state[7] = np.nan, np.nan
    alone = as_dtype(held, np.float64)
    y = step(x, w, held, [3, 7, 7, 1])

    assert close(y[[0, 3]], step(x[[0, 3]], w, alone, [3, 1]))


@pytest.mark.parametrize("slot", [-1, 9])
def test_a_slot_that_is_not_there_is_refused(slot: int) -> None:
    x, w, held = inputs()

    with pytest.raises(ValueError, match=rf"slots = {slot}, must be in \[0, 9\)"):
        step(x, w, held, [0, slot, 1])


def test_float32_drifts_from_float64_within_a_bound_over_512_steps() -> None:
    _x, w, held = inputs()
    narrow_w, narrow = as_dtype(w, np.float32), as_dtype(held, np.float32)
    rng = np.random.default_rng(7)
    errors = []
    for _ in range(512):
        x = rng.standard_normal((3, TINY.hidden)).astype(np.float32)
        wide_y = step(x.astype(np.float64), w, held)
        narrow_y = step(x, narrow_w, narrow)
        errors.append(np.abs(narrow_y - wide_y).max() / np.abs(wide_y).max())

    assert narrow_y.dtype == narrow.state.dtype == np.float32
    assert max(errors) < 2e-5
    # The state decays, so that old errors do too: the end is no worse than the start.
    assert np.median(errors[-64:]) < 4 * np.median(errors[:64])
    assert close(narrow.state[SLOTS].astype(np.float64), held.state[SLOTS], 2e-5)


def test_the_norm_at_the_end_is_over_each_value_head_and_gated() -> None:
    x, w, held = inputs(batch=1)
    y = step(x, w, held, [0])
    zero_gate = replace(w, w_z=0 * w.w_z)

    assert y.shape == (1, TINY.hidden)
    assert y.all()
    assert not step(x, zero_gate, held, [0]).any()


def test_columns_of_the_real_size_stay_finite_from_a_zero_state() -> None:
    rng = np.random.default_rng(8)
    q, k = normal(rng, 8, 4, 128), np.zeros((8, 4, 128))
    v, held = normal(rng, 8, 8, 128), np.zeros((8, 8, 128, 128), dtype=np.float32)
    g, beta = -np.ones((8, 8)), np.ones((8, 8))

    assert not delta_step(q, k, v, g, beta, held, np.arange(8)).any()
