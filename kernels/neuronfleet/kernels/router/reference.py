"""Expert routing in NumPy: softmax, top-k, renormalise."""

import numpy as np

from neuronfleet.kernels.numerics import Floats, Ints, softmax, working


def route(x: Floats, w_router: Floats, top_k: int) -> tuple[Ints, Floats]:
    """The experts of every token and their weights, the heaviest first.

    p = softmax(x W^T) over all experts; weight_i = p_i / (sum of p over the chosen). The sum over
    the experts left out cancels, so the softmax is taken over the chosen logits alone. Experts
    are chosen by logit, not by probability: large logits round to equal probabilities, and
    equal logits go to the lower id, as the device's max8 with find_index8 gives them.

    Args:
        x: [tokens, hidden].
        w_router: [experts, hidden].
        top_k: Experts a token.

    Returns:
        Ids [tokens, top_k] int32 and weights [tokens, top_k] that sum to 1 in each row.
    """
    x, w_router = working(x, w_router)
    logits = x @ w_router.T
    ids = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    return ids.astype(np.int32), softmax(np.take_along_axis(logits, ids, axis=-1))
