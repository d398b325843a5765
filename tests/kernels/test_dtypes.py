"""Every op's reference: bfloat16 is widened exactly, float32 stays, float64 anywhere widens all."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from neuronfleet.kernels.deltanet.prefill import deltanet_prefill
from neuronfleet.kernels.deltanet.reference import deltanet_step
from neuronfleet.kernels.gqa.reference import gqa_step
from neuronfleet.kernels.lm_head.reference import lm_head_tile
from neuronfleet.kernels.moe.reference import moe
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.rmsnorm.reference import rmsnorm
from neuronfleet.kernels.rope.reference import rope
from neuronfleet.kernels.router.reference import route
from tests.kernels import ops_inputs
from tests.kernels.ops_inputs import TINY, close, named, normal

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, TINY.hidden))
DELTANET = named(ops_inputs.deltanet_weights(RNG, TINY), ops_inputs.deltanet_state(RNG, TINY, 3))
LENGTHS = np.array([3, 6])
COS, SIN = ops_inputs.angles(TINY, LENGTHS)
PAGED: dict[str, Any] = {"block_table": np.array([[0, 1], [2, 3]]), "lengths": LENGTHS}
ATTENTION = named(ops_inputs.attention_weights(RNG, TINY), ops_inputs.pages(RNG, TINY, 4, 4))

Op = tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]
OPS: dict[str, Op] = {
    "rmsnorm": (rmsnorm, {"x": X, "weight": X[0]}, {}),
    "rope": (rope, {"x": RNG.standard_normal((2, 2, 16)), "cos": COS, "sin": SIN}, {}),
    "router": (route, {"x": X, "w_router": normal(RNG, 16, TINY.hidden)}, {"top_k": 4}),
    "deltanet": (deltanet_step, {"x": X, **DELTANET}, {"slots": np.array([2, 0])}),
    "prefill": (deltanet_prefill, {"x": X, **DELTANET}, {"slot": 1}),
    "gqa": (gqa_step, {"x": X, **ATTENTION, "cos": COS, "sin": SIN}, PAGED),
    "moe": (moe, {"x": X, **named(ops_inputs.expert_weights(RNG, TINY))}, {"top_k": 4}),
    "lm_head": (lm_head_tile, {"x": X, "w_head": normal(RNG, 96, TINY.hidden)}, {}),
}


def run(op: str, dtypes: dict[str, npt.DTypeLike], default: npt.DTypeLike) -> Floats:
    """The op's numbers with each array first rounded to bfloat16, then held in the dtype asked."""
    function, arrays, rest = OPS[op]
    held = {
        name: array.astype(BF16).astype(dtypes.get(name, default)) for name, array in arrays.items()
    }
    answer = function(**held, **rest)
    numbers = answer if isinstance(answer, np.ndarray) else answer[1 if op == "router" else 0]
    return np.asarray(numbers)


@pytest.mark.parametrize("op", OPS)
def test_bfloat16_gives_what_the_same_numbers_in_float32_give(op: str) -> None:
    # States and caches are written in their own dtype, so they stay float32 on both sides.
    kept = dict.fromkeys(("state", "conv_state", "k_cache", "v_cache"), np.float32)
    narrow, wide = run(op, dict(kept), BF16), run(op, {}, np.float32)

    assert narrow.dtype == wide.dtype == np.float32
    assert np.array_equal(narrow, wide)


@pytest.mark.parametrize("op", OPS)
def test_float32_is_close_to_float64_and_one_float64_input_widens_the_answer(op: str) -> None:
    exact = run(op, {}, np.float64)

    assert exact.dtype == np.float64
    assert close(run(op, {}, np.float32).astype(np.float64), exact, 1e-5)
    assert run(op, {"x": np.float64}, np.float32).dtype == np.float64
