"""A whole Qwen3.5 mixture-of-experts decoder in NumPy, from tokens to logits.

It says what a served model must compute, with state carried in slots and blocks as a serving engine
does. It is written to be compared with, at sizes that fit a test.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.lm_head.reference import lm_head_tile
from neuronfleet.kernels.models.blocks import (
    Angles,
    DeltaNetState,
    PagedKeysValues,
    attention_block_prefill,
    attention_block_step,
    deltanet_block_prefill,
    deltanet_block_step,
    expert_block,
)
from neuronfleet.kernels.numerics import Floats, Ints
from neuronfleet.kernels.rmsnorm.reference import rmsnorm
from neuronfleet.kernels.rope.reference import rope_tables
from neuronfleet.kernels.shapes import ModelShape
from neuronfleet.kernels.weights import AttentionWeights, DecoderWeights, DeltaNetWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderState:
    """What every layer carries; slots and blocks are dealt out by the caller."""

    layers: tuple[DeltaNetState | PagedKeysValues, ...]

    def clear(self, slot: int) -> None:
        """Ready a slot for a new sequence. Blocks need none: their old tokens are never read."""
        for held in self.layers:
            if isinstance(held, DeltaNetState):
                held.state[slot] = 0
                held.conv_state[slot] = 0


def empty_state(
    shape: ModelShape, *, slots: int, blocks: int, block_size: int, dtype: npt.DTypeLike
) -> DecoderState:
    """State of a decoder that has seen nothing: zeros in slots, NaN in blocks.

    Keys that nobody wrote are NaN so that reading one shows.
    """
    layers: list[DeltaNetState | PagedKeysValues] = []
    matrices = (slots, shape.value_heads, shape.key_dim, shape.value_dim)
    tail = (slots, shape.conv_channels, shape.conv_width - 1)
    pages = (blocks, block_size, shape.kv_heads, shape.head_dim)
    for layer in range(shape.layers):
        if shape.is_attention(layer):
            keys, values = np.full(pages, np.nan, dtype), np.full(pages, np.nan, dtype)
            layers.append(PagedKeysValues(k_cache=keys, v_cache=values))
        else:
            matrix, past = np.zeros(matrices, dtype), np.zeros(tail, dtype)
            layers.append(DeltaNetState(state=matrix, conv_state=past))
    return DecoderState(layers=tuple(layers))


def decode_step(
    shape: ModelShape,
    weights: DecoderWeights,
    held: DecoderState,
    tokens: Ints,
    slots: Ints,
    block_table: Ints,
    lengths: Ints,
) -> Floats:
    """Logits after one token a sequence; `held` takes the tokens in.

    Args:
        shape: Of the decoder.
        weights: Likewise.
        held: Changed in place.
        tokens: [batch].
        slots: [batch] slot of each sequence.
        block_table: [batch, blocks a sequence].
        lengths: [batch] tokens of each sequence, this one included.

    Returns:
        [batch, vocabulary].
    """
    x = weights.embedding[tokens]
    angles = _angles(shape, lengths - 1, x.dtype)
    for layer, state in zip(weights.layers, held.layers, strict=True):
        norm, mixer = layer.mixer_norm, layer.mixer
        match mixer, state:
            case DeltaNetWeights(), DeltaNetState():
                x = deltanet_block_step(x, norm, mixer, state, slots, shape.eps)
            case AttentionWeights(), PagedKeysValues():
                x = attention_block_step(
                    x, norm, mixer, angles, state, block_table, lengths, shape.eps
                )
            case _:
                raise ValueError("a layer's state is not of its kind")
        x = expert_block(x, layer.expert_norm, layer.experts, shape.experts_per_token, shape.eps)
    return _logits(shape, weights, x)


def prefill(
    shape: ModelShape,
    weights: DecoderWeights,
    held: DecoderState,
    tokens: Ints,
    slot: int,
    blocks: Ints,
    start: int = 0,
) -> Floats:
    """Logits after every token of a run of one sequence; `held` takes the tokens in.

    Args:
        shape: Of the decoder.
        weights: Likewise.
        held: Changed in place.
        tokens: [n].
        slot: The sequence's, cleared before its first run.
        blocks: [blocks of the sequence].
        start: Tokens of the sequence that `held` has already.

    Returns:
        [n, vocabulary].
    """
    x = weights.embedding[tokens]
    angles = _angles(shape, np.arange(start, start + len(tokens)), x.dtype)
    for layer, state in zip(weights.layers, held.layers, strict=True):
        norm, mixer = layer.mixer_norm, layer.mixer
        match mixer, state:
            case DeltaNetWeights(), DeltaNetState():
                x = deltanet_block_prefill(x, norm, mixer, state, slot, shape.eps)
            case AttentionWeights(), PagedKeysValues():
                x = attention_block_prefill(x, norm, mixer, angles, state, blocks, start, shape.eps)
            case _:
                raise ValueError("a layer's state is not of its kind")
        x = expert_block(x, layer.expert_norm, layer.experts, shape.experts_per_token, shape.eps)
    return _logits(shape, weights, x)


def _angles(shape: ModelShape, positions: Ints, dtype: npt.DTypeLike) -> Angles:
    cos, sin = rope_tables(positions, shape.rotary_dim, shape.rope_theta, dtype)
    return Angles(cos=cos, sin=sin)


def _logits(shape: ModelShape, weights: DecoderWeights, x: Floats) -> Floats:
    normed = rmsnorm(x, weights.norm, shape.eps, zero_centred=True)
    logits, _best, _token = lm_head_tile(normed, weights.head)
    return logits
