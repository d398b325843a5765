"""The adapter on a kernel of our own, and KDA's candidates where a checkout is at hand.

KDA_CHECKOUT names the checkout; it stays outside of this repository.
"""

import os
from pathlib import Path

import pytest

from neuronfleet.kernels.cost.constants import CONSTANTS
from neuronfleet.kernels.cost.model import simulate
from tests.kernels.external.kda import judge
from tests.kernels.external.kda.compiler_order import compiled
from tests.kernels.external.kda.older_language import trace_of

TRN2 = CONSTANTS["trn2"]
KERNEL = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim

@nki.jit
def kernel(x, w):
    rows, columns = nl.arange(128)[:, None], nl.arange(512)[None, :]
    out = nl.ndarray((4, 128, 512), dtype=np.float32, buffer=nl.shared_hbm)
    for block in nl.affine_range(4):
        sums = nl.zeros((par_dim(128), 512), dtype=np.float32, buffer=nl.psum)
        for part in nl.affine_range(2):
            left = nl.load(x[block, part, rows, nl.arange(128)[None, :]])
            sums[rows, columns] += nisa.nc_matmul(left, nl.load(w[part, rows, columns]))
        done = nl.ndarray((par_dim(128), 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        done[rows, columns] = nl.exp(sums[rows, columns])
        nl.store(out[block, rows, columns], value=done[rows, columns])
    return out
"""


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    file = tmp_path / "candidate.py"
    file.write_text(KERNEL)
    return file


def test_an_older_kernel_becomes_a_trace_that_writes_where_it_assigns(candidate: Path) -> None:
    trace = trace_of(candidate, [(4, 2, 128, 128), (2, 128, 512)])

    assert trace.opcodes() == {"dma_copy": 20, "nc_matmul": 8, "activation": 4}
    products = [one for one in trace.instructions if one.opcode == "nc_matmul"]
    assert products[0].writes[0].storage == products[1].writes[0].storage
    assert products[0].writes[0].shape == (128, 512)
    (activation, *_) = [one for one in trace.instructions if one.opcode == "activation"]
    assert activation.writes[0].dtype == "bfloat16"


def test_the_compiled_order_keeps_every_instruction_and_overlaps_the_loop(candidate: Path) -> None:
    trace = trace_of(candidate, [(), ()])

    order = compiled(trace, TRN2, window=256)

    assert order.opcodes() == trace.opcodes()
    plain, better = (max(e.end for e in simulate([one], TRN2).values()) for one in (trace, order))
    assert better <= plain


@pytest.mark.parametrize(
    ("measured", "model", "found"),
    [
        ([1, 2, 3], [1, 2, 3], (3.0, 3)),
        ([1, 2, 3], [3, 2, 1], (0.0, 3)),
        ([1, 2, 3], [5, 5, 5], (1.5, 3)),
        ([100, 105, 200], [2, 1, 3], (2.0, 2)),
    ],
)
def test_concordance_counts_pairs_that_differ_by_a_tenth(
    measured: list[float], model: list[float], found: tuple[float, int]
) -> None:
    assert judge.concordance(measured, model) == found


def test_every_operator_is_on_one_side_of_the_split_and_has_inputs() -> None:
    both = judge.SPLIT["calibrate"] + judge.SPLIT["judge"]

    assert sorted(both) == sorted(judge.SPLIT["inputs"])
    assert len(both) == len(set(both)) == 14


@pytest.mark.skipif("KDA_CHECKOUT" not in os.environ, reason="KDA_CHECKOUT names no checkout")
def test_clocks_fitted_on_one_operator_of_the_calibration_time_it_within_a_tenth() -> None:
    rows = judge.timed(Path(os.environ["KDA_CHECKOUT"]), "add_rmsnorm_matmul")

    assert judge.error(rows, 2.0) < 0.10
