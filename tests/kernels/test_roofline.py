"""Bytes and microseconds at the memory's bandwidth: what DESIGN.md prints is what is computed."""

from pathlib import Path

import numpy as np
import pytest

import neuronfleet.kernels
from neuronfleet.kernels import roofline
from neuronfleet.kernels.moe.layout import pack_expert
from neuronfleet.kernels.shapes import QWEN3_5_35B_A3B
from tests.kernels.ops_inputs import attention_weights, deltanet_weights, named

RANK = QWEN3_5_35B_A3B.ranked(4)
HOME = Path(neuronfleet.kernels.__file__).parent


@pytest.mark.parametrize("op", roofline.OPS)
def test_the_design_of_an_op_prints_the_table_that_is_computed(op: str) -> None:
    design = (HOME / op / "DESIGN.md").read_text()

    assert roofline.table(op) in design, f"print(roofline.table({op!r})) and paste it"


@pytest.mark.parametrize(
    ("batch", "deltanet_us", "moe_us", "step_ms"),
    [(1, 25, 21, 2.19), (2, 26, 38, 2.96), (4, 29, 70, 4.45), (8, 35, 128, 7.19)],
)
def test_a_step_at_4k_is_that_of_the_published_arithmetic(
    batch: int, deltanet_us: float, moe_us: float, step_ms: float
) -> None:
    assert roofline.deltanet(RANK, batch, 4096).us == pytest.approx(deltanet_us, abs=0.5)
    assert roofline.moe(RANK, batch, 4096).us == pytest.approx(moe_us, abs=0.5)
    assert roofline.step_us(RANK, batch, 4096) / 1e3 == pytest.approx(step_ms, rel=0.003)


def test_weights_counted_are_those_that_a_rank_has() -> None:
    rng = np.random.default_rng(1)
    deltanet, attention = deltanet_weights(rng, RANK), attention_weights(rng, RANK)
    # Gates' parameters are float32, all else bfloat16.
    gates = deltanet.a_log.size + deltanet.dt_bias.size
    bytes_held = 2 * sum(array.size for array in named(deltanet).values()) + 2 * gates
    expert = np.zeros((2 * RANK.expert_width, RANK.hidden)), np.zeros((RANK.hidden, 128))

    assert roofline.deltanet(RANK, 1, 1).weights == bytes_held
    assert roofline.gqa(RANK, 1, 1).weights == 2 * sum(a.size for a in named(attention).values())
    per_expert = roofline.moe(RANK, 2, 1).weights - roofline.moe(RANK, 1, 1).weights
    touched = roofline.unique_experts(RANK, 2) - roofline.unique_experts(RANK, 1)
    assert per_expert / touched == pytest.approx(2 * pack_expert(*expert).size)


def test_unique_experts_are_the_mean_of_seeded_routings() -> None:
    rng = np.random.default_rng(2)
    trials = [
        np.unique(np.concatenate([rng.choice(256, 8, replace=False) for _ in range(8)])).size
        for _ in range(2000)
    ]

    assert roofline.unique_experts(RANK, 1) == pytest.approx(8)
    assert roofline.unique_experts(RANK, 8) == pytest.approx(np.mean(trials), abs=0.3)


def test_context_costs_attention_alone_and_batch_costs_no_dense_weight() -> None:
    for function in (roofline.deltanet, roofline.moe, roofline.lm_head):
        assert function(RANK, 2, 4096) == function(RANK, 2, 131072)
    assert roofline.gqa(RANK, 1, 8192).carried == 2 * roofline.gqa(RANK, 1, 4096).carried
    assert roofline.lm_head(RANK, 8, 1) == roofline.lm_head(RANK, 1, 1)
