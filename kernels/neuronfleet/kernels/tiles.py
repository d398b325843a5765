"""Packing of matrices into the tiles that the tensor engine and the DMA queues like.

A tile has 128 partitions. Weights are the stationary operand of a matrix product, which wants the
contracted axis on partitions: W [rows, columns] becomes [groups, 128, columns / 128, rows a group].
One group is one DMA, and what it brings to a partition lies in a row: at 2048 columns and groups of
128 rows in bfloat16 4 KiB, where 2 KiB is where DMA reaches its bandwidth.
"""

import numpy as np

from neuronfleet.kernels.numerics import Floats

PARTITIONS = 128
"""Partitions of SBUF and PSUM on every NeuronCore generation."""


def pack_stationary(weight: Floats, group: int = PARTITIONS) -> Floats:
    """A weight as stationary tiles; rows short of a whole group are zeros.

    packed[m, p, c, j] = weight[m group + j, 128 c + p].

    Args:
        weight: [rows, columns].
        group: Rows a group, at most 128.

    Returns:
        [ceil(rows / group), 128, columns / 128, group].

    Raises:
        ValueError: the columns are no multiple of 128.
    """
    rows, columns = weight.shape
    if columns % PARTITIONS:
        raise ValueError(f"columns = {columns}, must be a multiple of {PARTITIONS}")
    padded = np.pad(weight, ((0, -rows % group), (0, 0)))
    tiles = padded.reshape(-1, group, columns // PARTITIONS, PARTITIONS)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1))


def unpack_stationary(packed: Floats, rows: int) -> Floats:
    """The weight [rows, columns] that `pack_stationary` packed."""
    groups, partitions, chunks, group = packed.shape
    tiles = packed.transpose(0, 3, 2, 1).reshape(groups * group, chunks * partitions)
    return np.ascontiguousarray(tiles[:rows])


def pack_columns(vector: Floats) -> Floats:
    """A vector [128 n] as a column a chunk: packed[p, c] = vector[128 c + p], [128, n].

    Raises:
        ValueError: its length is no multiple of 128.
    """
    if len(vector) % PARTITIONS:
        raise ValueError(f"length = {len(vector)}, must be a multiple of {PARTITIONS}")
    return np.ascontiguousarray(vector.reshape(-1, PARTITIONS).T)


def unpack_columns(packed: Floats) -> Floats:
    """The vector that `pack_columns` packed."""
    return np.ascontiguousarray(packed.T).reshape(-1)
