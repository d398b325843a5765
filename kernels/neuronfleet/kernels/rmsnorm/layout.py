"""How a norm's gain lies on the device: hidden on partitions, as the projections leave it."""

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import pack_columns, unpack_columns


def pack_weight(weight: Floats) -> Floats:
    """[width] as [128, width / 128], the checkpoint's values unchanged.

    A zero-centred weight stays so: 1 + w in bfloat16 would lose what w below 2^-8 says.
    """
    return pack_columns(weight)


def unpack_weight(packed: Floats) -> Floats:
    """[width] from what `pack_weight` gave."""
    return unpack_columns(packed)
