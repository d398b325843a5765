"""How weights and states of a DeltaNet layer lie on the device.

Projections are stationary tiles, whose products have channels on partitions. A group of 128
channels is then one head's query, key or value, the convolution has its taps as scalars of a
partition, and queries and keys meet the state with key_dim on partitions.
"""

import numpy as np

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import PARTITIONS, pack_stationary, unpack_stationary


def pack_in(w_qkv: Floats, w_z: Floats, w_b: Floats, w_a: Floats) -> tuple[Floats, Floats]:
    """The projections into the layer.

    Returns:
        Queries, keys, values and output gate [groups, 128, hidden / 128, 128], and b and a
        [128, hidden / 128, 2 value_heads]: 16 rows a rank, too few for a group of 128.
    """
    heads = np.concatenate([w_b, w_a])
    wide = pack_stationary(np.concatenate([w_qkv, w_z]))
    return wide, pack_stationary(heads, group=len(heads))[0]


def unpack_in(
    wide: Floats, narrow: Floats, value_channels: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """w_qkv, w_z, w_b and w_a from what `pack_in` gave."""
    rows = unpack_stationary(wide, len(wide) * PARTITIONS)
    w_b, w_a = np.split(unpack_stationary(narrow[None], narrow.shape[-1]), 2)
    return rows[:-value_channels], rows[-value_channels:], w_b, w_a


def pack_conv(conv_weight: Floats) -> Floats:
    """[channels, taps] as [128, channels / 128, taps]: a channel's partition is its product's."""
    groups = conv_weight.reshape(-1, PARTITIONS, conv_weight.shape[-1])
    return np.ascontiguousarray(groups.swapaxes(0, 1))


def unpack_conv(packed: Floats) -> Floats:
    """[channels, taps] from what `pack_conv` gave."""
    return np.ascontiguousarray(packed.swapaxes(0, 1)).reshape(-1, packed.shape[-1])


def pack_out(w_out: Floats) -> Floats:
    """[hidden, channels] as stationary tiles [hidden / 128, 128, channels / 128, 128]."""
    return pack_stationary(w_out)


def unpack_out(packed: Floats) -> Floats:
    """[hidden, value_channels] from what `pack_out` gave."""
    return unpack_stationary(packed, len(packed) * PARTITIONS)


def pack_state(state: Floats) -> Floats:
    """[slots, heads, key_dim, value_dim] as [slots, key_dim, heads, value_dim].

    A slot is one DMA with key_dim on partitions: 8 heads of 128 in float32 are 4 KiB in a row.
    """
    return np.ascontiguousarray(state.swapaxes(1, 2))


def unpack_state(packed: Floats) -> Floats:
    """[slots, heads, key_dim, value_dim] from what `pack_state` gave."""
    return np.ascontiguousarray(packed.swapaxes(1, 2))


def pack_conv_state(conv_state: Floats) -> Floats:
    """[slots, channels, past] as [slots, 128, past, channels / 128], oldest token first.

    A token's channels lie together, so that a shift is one copy of the later tokens.
    """
    slots, channels, past = conv_state.shape
    groups = conv_state.reshape(slots, channels // PARTITIONS, PARTITIONS, past)
    return np.ascontiguousarray(groups.transpose(0, 2, 3, 1))


def unpack_conv_state(packed: Floats) -> Floats:
    """[slots, channels, past] from what `pack_conv_state` gave."""
    slots, _partitions, past, _groups = packed.shape
    return np.ascontiguousarray(packed.transpose(0, 3, 1, 2)).reshape(slots, -1, past)
