import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.kernels.deltanet.prefill import delta_chunks, deltanet_prefill
from neuronfleet.kernels.deltanet.reference import delta_step, deltanet_step
from neuronfleet.kernels.numerics import Floats
from tests.kernels.ops_inputs import (
    TINY,
    as_dtype,
    close,
    deltanet_state,
    deltanet_weights,
    named,
)


def token_by_token(
    q: Floats, k: Floats, v: Floats, g: Floats, beta: Floats, held: Floats, slot: int
) -> Floats:
    rows = (slice(t, t + 1) for t in range(len(v)))
    slots = np.array([slot])
    return np.concatenate([delta_step(q[r], k[r], v[r], g[r], beta[r], held, slots) for r in rows])


def inputs(seed: int, tokens: int, gate: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    q, k = (rng.standard_normal((tokens, 2, 16)) for _ in range(2))
    v = rng.standard_normal((tokens, 4, 16))
    g = -gate * rng.uniform(0, 1, (tokens, 4))
    return q, k, v, g, rng.uniform(0, 1, (tokens, 4))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(1, 150),
    st.sampled_from([1, 3, 16, 64, 128]),
    st.sampled_from([0.0, 0.01, 1.0, 50.0, 1e4]),
)
def test_chunks_give_what_the_recurrence_gives(
    seed: int, tokens: int, chunk: int, gate: float
) -> None:
    given_inputs = inputs(seed, tokens, gate)
    start = np.random.default_rng(seed + 1).standard_normal((3, 4, 16, 16))
    chunked, stepped = start.copy(), start.copy()
    o = delta_chunks(*given_inputs, chunked, 1, chunk)
    expected = token_by_token(*given_inputs, stepped, 1)

    assert close(o, expected, 1e-10)
    assert np.abs(chunked - stepped).max() <= 1e-10 * max(1, np.abs(start).max())
    assert np.array_equal(chunked[[0, 2]], start[[0, 2]])


def test_two_tokens_solved_by_hand() -> None:
    q, k, v, g, beta = inputs(1, 2, 0.5)
    held = np.zeros((1, 4, 16, 16))
    o = delta_chunks(q, k, v, g, beta, held, 0)
    units = k / np.sqrt((k * k).sum(axis=-1, keepdims=True) + 1e-6)
    scaled = q / np.sqrt((q * q).sum(axis=-1, keepdims=True) + 1e-6) / 4

    for head in range(4):
        (k0, k1), q1 = units[:, head // 2], scaled[1, head // 2]
        first = beta[0, head] * v[0, head]
        decay = np.exp(g[1, head])
        second = beta[1, head] * (v[1, head] - decay * (k0 @ k1) * first)
        expected = decay * (q1 @ k0) * first + (q1 @ k1) * second
        assert np.allclose(o[1, head], expected, rtol=1e-12)


def test_the_same_key_again_and_again_keeps_the_system_solvable() -> None:
    q, k, v, g, beta = inputs(2, 128, 0.0)
    k[:] = k[0]
    beta[:] = 1
    chunked, stepped = np.zeros((1, 4, 16, 16)), np.zeros((1, 4, 16, 16))

    assert close(
        delta_chunks(q, k, v, g, beta, chunked, 0, 128),
        token_by_token(q, k, v, g, beta, stepped, 0),
        1e-10,
    )
    assert close(chunked, stepped, 1e-10)


def test_a_layer_s_prefill_is_its_steps_one_after_another_whatever_the_chunk() -> None:
    rng = np.random.default_rng(3)
    w, start = deltanet_weights(rng, TINY), deltanet_state(rng, TINY, 4)
    x = rng.standard_normal((77, TINY.hidden))
    stepped = as_dtype(start, np.float64)
    expected = np.concatenate(
        [deltanet_step(row[None], **named(w, stepped), slots=np.array([2])) for row in x]
    )

    for chunk in (1, 10, 64, 128):
        held = as_dtype(start, np.float64)
        y = deltanet_prefill(x, **named(w, held), slot=2, chunk=chunk)
        assert close(y, expected, 1e-10)
        assert close(held.state, stepped.state, 1e-10)
        assert close(held.conv_state, stepped.conv_state, 1e-12)


def test_a_prompt_in_two_runs_is_the_prompt_in_one() -> None:
    rng = np.random.default_rng(4)
    w, held = deltanet_weights(rng, TINY), deltanet_state(rng, TINY, 2)
    x, again = rng.standard_normal((30, TINY.hidden)), as_dtype(held, np.float64)
    whole = deltanet_prefill(x, **named(w, held), slot=0)
    # The first run is shorter than the convolution's tail.
    parts = [deltanet_prefill(part, **named(w, again), slot=0) for part in (x[:2], x[2:])]

    assert close(np.concatenate(parts), whole, 1e-10)
    assert close(again.state, held.state, 1e-10)


def test_a_slot_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"slot = 3, must be in \[0, 3\)"):
        delta_chunks(*inputs(1, 2, 1.0), np.zeros((3, 4, 16, 16)), 3)
