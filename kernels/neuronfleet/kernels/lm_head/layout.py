"""How the head lies on the device: stationary tiles of 128 tokens, 512 KiB a DMA in bfloat16."""

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import pack_stationary, unpack_stationary


def pack_head(w_head: Floats) -> Floats:
    """[tokens, hidden] as [ceil(tokens / 128), 128, hidden / 128, 128].

    Rows past the last token are zeros, so their logits are 0: the kernel takes no maximum of them.
    """
    return pack_stationary(w_head)


def unpack_head(packed: Floats, tokens: int) -> Floats:
    """[tokens, hidden] from what `pack_head` gave."""
    return unpack_stationary(packed, tokens)
