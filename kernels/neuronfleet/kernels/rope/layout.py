"""How cosines and sines lie on the device: one row a position, gathered by an indirect DMA."""

import numpy as np

from neuronfleet.kernels.numerics import Floats


def pack_tables(cos: Floats, sin: Floats) -> Floats:
    """Two of [positions, half] as rows [positions, 2 half]: cosines, then sines."""
    return np.concatenate([cos, sin], axis=-1)


def unpack_tables(packed: Floats) -> tuple[Floats, Floats]:
    """Cosines and sines from what `pack_tables` gave."""
    cos, sin = np.split(packed, 2, axis=-1)
    return cos, sin
