"""How experts lie on the device: each one tile, brought by one DMA at an offset that its id gives.

A rank's slice of an expert of Qwen3.5-35B-A3B, 128 of 512 wide, is 128 partitions of 6144 elements:
12 KiB a partition in bfloat16, 1.5 MiB an expert.
"""

import numpy as np

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import PARTITIONS, pack_stationary, unpack_stationary


def pack_expert(w_gate_up: Floats, w_down: Floats) -> Floats:
    """One expert, routed or shared.

    Gate and up are stationary tiles with hidden on partitions, groups of up to 128 gate rows
    first; after them down, stationary tiles with the intermediate axis on partitions. A width
    below 128 leaves the partitions of down past it zero.

    Args:
        w_gate_up: [2 width, hidden]: gate rows, then up rows.
        w_down: [hidden, width].

    Returns:
        [128, 2 width hidden / 128 + ceil(width / 128) hidden].

    Raises:
        ValueError: hidden is no multiple of 128, or a width above 128 is none.
    """
    width = w_down.shape[1]
    group = min(width, PARTITIONS)
    if width % group:
        raise ValueError(f"width = {width}, must be at most {PARTITIONS} or a multiple of it")
    first = pack_stationary(w_gate_up, group).swapaxes(0, 1).reshape(PARTITIONS, -1)
    padded = np.pad(w_down, ((0, 0), (0, -width % PARTITIONS)))
    second = pack_stationary(padded).swapaxes(0, 1).reshape(PARTITIONS, -1)
    return np.concatenate([first, second], axis=-1)


def unpack_expert(packed: Floats, hidden: int, width: int) -> tuple[Floats, Floats]:
    """w_gate_up and w_down from what `pack_expert` gave."""
    group, chunks = min(width, PARTITIONS), hidden // PARTITIONS
    first, second = np.split(packed, [2 * width * chunks], axis=-1)
    gate_up = first.reshape(PARTITIONS, -1, chunks, group).swapaxes(0, 1)
    down = second.reshape(PARTITIONS, chunks, -1, PARTITIONS).swapaxes(0, 1)
    return unpack_stationary(gate_up, 2 * width), unpack_stationary(down, hidden)[:, :width]
