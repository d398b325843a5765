"""How the router's weight lies on the device.

Here tokens are the stationary operand and the weight moves, so that a token's logits end in one
partition, along which max8 and find_index8 search.
"""

from neuronfleet.kernels.numerics import Floats
from neuronfleet.kernels.tiles import pack_stationary, unpack_stationary


def pack_router(w_router: Floats) -> Floats:
    """[experts, hidden] as [128, hidden / 128, experts]: packed[p, c, e] = w[e, 128 c + p]."""
    packed: Floats = pack_stationary(w_router, group=len(w_router))[0]
    return packed


def unpack_router(packed: Floats) -> Floats:
    """[experts, hidden] from what `pack_router` gave."""
    return unpack_stationary(packed[None], packed.shape[-1])
