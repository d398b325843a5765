"""Each block is its op on the normed input, with the input added back."""

from typing import Any

import numpy as np

from neuronfleet.kernels.deltanet.reference import deltanet_step
from neuronfleet.kernels.gqa.reference import gqa_step
from neuronfleet.kernels.models.blocks import (
    Angles,
    attention_block_step,
    deltanet_block_step,
    expert_block,
)
from neuronfleet.kernels.moe.reference import moe
from neuronfleet.kernels.numerics import Floats
from tests.kernels import ops_inputs
from tests.kernels.ops_inputs import TINY, as_dtype, close, named

EPS = 1e-6
RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, TINY.hidden))
NORM = RNG.uniform(-0.5, 0.5, TINY.hidden)


def normed() -> Floats:
    mean_square = (X**2).mean(axis=1, keepdims=True)
    return np.asarray(X / np.sqrt(mean_square + EPS) * (1 + NORM))


def test_the_deltanet_block() -> None:
    w, held = ops_inputs.deltanet_weights(RNG, TINY), ops_inputs.deltanet_state(RNG, TINY, 3)
    again, slots = as_dtype(held, np.float64), np.array([2, 0])
    y = deltanet_block_step(X, NORM, w, held, slots, EPS)

    assert close(y, X + deltanet_step(normed(), **named(w, again), slots=slots))


def test_the_attention_block() -> None:
    w, held = ops_inputs.attention_weights(RNG, TINY), ops_inputs.pages(RNG, TINY, 4, 4)
    again, lengths = as_dtype(held, np.float64), np.array([3, 6])
    table = np.array([[0, 1], [2, 3]])
    cos, sin = ops_inputs.angles(TINY, lengths)
    y = attention_block_step(X, NORM, w, Angles(cos=cos, sin=sin), held, table, lengths, EPS)
    more: dict[str, Any] = {"cos": cos, "sin": sin, "block_table": table, "lengths": lengths}

    assert close(y, X + gqa_step(normed(), **named(w, again), **more))


def test_the_expert_block() -> None:
    w = ops_inputs.expert_weights(RNG, TINY)

    assert close(expert_block(X, NORM, w, 4, EPS), X + moe(normed(), **named(w), top_k=4))
