"""The decoder assembled from the references is transformers' own Qwen3.5 MoE, number for number."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuronfleet.kernels.models.checkpoint import decoder_weights, shape_of
from neuronfleet.kernels.models.decoder import DecoderState, decode_step, empty_state, prefill
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.shapes import ModelShape
from neuronfleet.kernels.weights import DecoderWeights
from neuronfleet.serving.local.engine_env import engine_environment

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ORACLE = Path(__file__).with_name("qwen3_5_oracle.py")
TYPICAL, WORST = 1e-5, 5e-4
"""Bounds of the error in parts of the largest logit, the median and the worst over tokens. Seen:
2e-6, and 1.4e-4 at one token, where our float64 and transformers' float32 differ by 5e-5."""
SIZE = 16
SLOTS = np.array([4, 0, 2])


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What transformers computed, in an environment of its own."""
    out = tmp_path_factory.mktemp("qwen3_5") / "oracle.npz"
    python = asyncio.run(engine_environment(print)) / "bin/python"
    subprocess.run([python, ORACLE, out], check=True, timeout=600)
    with np.load(out) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="session")
def shape(said: Mapping[str, Any]) -> ModelShape:
    return shape_of(json.loads(str(said["config"])))


def weights(said: Mapping[str, Any], shape: ModelShape, dtype: type = np.float32) -> DecoderWeights:
    mark = "weight:"
    arrays = {k.removeprefix(mark): v.astype(dtype) for k, v in said.items() if k.startswith(mark)}
    return decoder_weights(shape, arrays)


def state(shape: ModelShape, dtype: type = np.float32) -> DecoderState:
    return empty_state(shape, slots=6, blocks=64, block_size=SIZE, dtype=dtype)


def block_table() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Each sequence's blocks lie anywhere among the others'."""
    return np.random.default_rng(3).permutation(64)[:48].reshape(3, 16)


def assert_close(got: Floats, expected: Floats) -> None:
    """Rows are tokens."""
    errors = np.abs(got - expected).max(axis=-1) / np.abs(expected).max()
    assert np.median(errors) < TYPICAL
    assert errors.max() < WORST


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_prefill_gives_the_logits_of_every_token_of_a_prompt(
    said: Mapping[str, Any], shape: ModelShape, index: int, dtype: type
) -> None:
    prompt, blocks = said[f"prompt:{index}"], block_table()[index]
    logits = prefill(shape, weights(said, shape, dtype), state(shape, dtype), prompt, 1, blocks)

    assert logits.dtype == dtype
    assert_close(logits, said[f"prefill:{index}"])


def test_sixty_four_greedy_steps_of_a_batch_choose_the_same_tokens(
    said: Mapping[str, Any], shape: ModelShape
) -> None:
    held, table, loaded = state(shape), block_table(), weights(said, shape)
    prompts = [said[f"prompt:{index}"] for index in range(3)]
    expected = np.stack([said[f"tokens:{index}"] for index in range(3)], axis=1)
    lengths = np.array([len(prompt) for prompt in prompts])
    # The batch is made of sequences that were prefilled one by one, of different lengths.
    logits = np.stack(
        [
            prefill(shape, loaded, held, prompt, int(slot), blocks)[-1]
            for prompt, slot, blocks in zip(prompts, SLOTS, table, strict=True)
        ]
    )

    seen = []
    for row in expected:
        tokens = logits.argmax(axis=-1)
        assert tokens.tolist() == row.tolist()
        lengths += 1
        logits = decode_step(shape, loaded, held, tokens, SLOTS, table, lengths)
        seen.append(logits)
    assert len(seen) == 64
    for index in range(3):
        assert_close(np.stack(seen)[:, index], said[f"logits:{index}"])
    # Greedy tokens that all came out alike would say little.
    assert np.unique(expected).size > 20
