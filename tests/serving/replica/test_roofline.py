"""Rooflines, against arithmetic done by hand."""

from pathlib import Path

import pytest

from neuronfleet.serving.api import fleet
from neuronfleet.serving.replica import roofline
from neuronfleet.serving.replica.timing import Basis

EXAMPLES = Path(__file__).parents[3] / "examples"
FLEET = fleet.load(EXAMPLES / "qwen3.5-35b-a3b.yaml").fleets[0]
FACTS, VARIANT = FLEET.model.architecture, FLEET.variants[0]


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 2.19), (2, 2.97), (4, 4.45), (8, 7.2)])
def test_the_35b_s_step_on_four_ranks_takes_what_its_bytes_do(
    batch: int, milliseconds: float
) -> None:
    # One rank at 725 GB/s: DeltaNet 17.9 MB a layer, experts 15.2 MB at batch 1, LM head 254 MB.
    assert FACTS is not None

    assert roofline.step_ms(FACTS, VARIANT, batch, 4096) == pytest.approx(milliseconds, abs=0.01)


def test_eight_sequences_touch_57_of_256_experts() -> None:
    assert FACTS is not None

    assert roofline.unique_experts(FACTS, 1) == pytest.approx(8)
    assert roofline.unique_experts(FACTS, 8) == pytest.approx(57.4, abs=0.05)


def test_a_dense_model_reads_all_its_weights_and_each_sequence_s_keys_and_values() -> None:
    one = fleet.load(EXAMPLES / "llama-3.1-8b.yaml").fleets[0]
    facts, inf2 = one.model.architecture, one.variants[0]
    assert facts is not None

    # 7.505 G parameters without the input embedding, 128 KiB a token, halved over two ranks.
    expected = (7_504_924_672 * 2 + 4 * 131_072 * 1000) / 2
    assert roofline.step_bytes(facts, inf2, 4, 1000) == pytest.approx(expected)


def test_a_roofline_says_that_it_is_one() -> None:
    assert FACTS is not None
    timing = roofline.timing(FACTS, VARIANT)

    assert timing is not None
    assert timing.basis is Basis.ROOFLINE
    assert timing.fitted_to == 0
