"""The decoder assembled from the references: state carried over steps, slots and blocks."""

from dataclasses import replace

import numpy as np
import pytest

from neuronfleet.kernels.models.blocks import PagedKeysValues
from neuronfleet.kernels.models.decoder import DecoderState, decode_step, empty_state, prefill
from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.weights import DecoderWeights
from tests.kernels.ops_inputs import TINY, close, decoder_weights

SHAPE = replace(TINY, layers=8)
SIZE = 8


@pytest.fixture(scope="module")
def weights() -> DecoderWeights:
    return decoder_weights(np.random.default_rng(1), SHAPE)


def state() -> DecoderState:
    return empty_state(SHAPE, slots=4, blocks=12, block_size=SIZE, dtype=np.float64)


def tokens(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(0, SHAPE.vocabulary, count)


def one_step(
    weights: DecoderWeights, held: DecoderState, token: int, slot: int, blocks: object, length: int
) -> Floats:
    table = np.asarray(blocks)[None]
    args = (np.array([token]), np.array([slot]), table, np.array([length]))
    logits: Floats = decode_step(SHAPE, weights, held, *args)[0]
    return logits


def test_prefill_gives_the_logits_of_single_steps_and_leaves_the_same_state(
    weights: DecoderWeights,
) -> None:
    prompt, blocks = tokens(2, 30), np.array([3, 7, 1, 10])
    at_once, stepped = state(), state()
    logits = prefill(SHAPE, weights, at_once, prompt, 2, blocks)
    steps = [
        one_step(weights, stepped, token, 2, blocks, at + 1)
        for at, token in enumerate(prompt.tolist())
    ]

    assert close(logits, np.stack(steps), 1e-10)
    after = [one_step(weights, held, 5, 2, blocks, 31) for held in (at_once, stepped)]
    assert close(after[0], after[1], 1e-10)


def test_a_prompt_may_come_in_runs(weights: DecoderWeights) -> None:
    prompt, blocks = tokens(3, 30), np.array([3, 7, 1, 10])
    whole = prefill(SHAPE, weights, state(), prompt, 0, blocks)
    held = state()
    first = prefill(SHAPE, weights, held, prompt[:11], 0, blocks)
    second = prefill(SHAPE, weights, held, prompt[11:], 0, blocks, start=11)

    assert close(np.concatenate([first, second]), whole, 1e-10)


def test_sequences_of_a_batch_decode_as_each_would_alone_wherever_their_state_lies(
    weights: DecoderWeights,
) -> None:
    prompts = [tokens(4, 13), tokens(5, 3), tokens(6, 20)]
    together, slots = state(), np.array([3, 0, 2])
    table = np.array([[4, 0, 11, 5], [9, 2, 1, 1], [8, 10, 3, 7]])
    alone = [state() for _ in prompts]
    for row, prompt in enumerate(prompts):
        prefill(SHAPE, weights, together, prompt, int(slots[row]), table[row])
        prefill(SHAPE, weights, alone[row], prompt, 1, np.array([6, 2, 0, 9]))
    lengths = np.array([len(prompt) for prompt in prompts])

    for _ in range(8):
        lengths += 1
        new = tokens(int(lengths.sum()), 3)
        logits = decode_step(SHAPE, weights, together, new, slots, table, lengths)
        for row in range(3):
            expected = one_step(
                weights, alone[row], int(new[row]), 1, [6, 2, 0, 9], int(lengths[row])
            )
            assert close(logits[row], expected, 1e-10)


def test_a_cleared_slot_and_reused_blocks_remember_nothing(weights: DecoderWeights) -> None:
    prompt, blocks = tokens(7, 12), np.array([3, 7])
    used = state()
    prefill(SHAPE, weights, used, tokens(8, 16), 1, blocks)
    used.clear(1)

    assert np.array_equal(
        prefill(SHAPE, weights, used, prompt, 1, blocks),
        prefill(SHAPE, weights, state(), prompt, 1, blocks),
    )


def test_every_fourth_layer_keeps_keys_and_the_rest_a_state() -> None:
    kinds = [isinstance(held, PagedKeysValues) for held in state().layers]

    assert kinds == [False, False, False, True] * 2


def test_a_state_of_another_kind_is_refused(weights: DecoderWeights) -> None:
    swapped = DecoderState(layers=state().layers[::-1])

    with pytest.raises(ValueError, match="not of its kind"):
        prefill(SHAPE, weights, swapped, tokens(9, 2), 0, np.array([0]))
