"""Logits of a tile of the vocabulary in NumPy, and the greedy token over several tiles."""

from collections.abc import Sequence

import numpy as np

from neuronfleet.kernels.numerics import Floats, Ints, working


def lm_head_tile(x: Floats, w_head: Floats, first_token: int = 0) -> tuple[Floats, Floats, Ints]:
    """Logits of a run of tokens, with the best of them.

    logits = x W^T; best = max(logits), best_token = the lowest token that has it.

    Args:
        x: [batch, hidden], after the last norm.
        w_head: [tokens, hidden], rows first_token and on of the head.
        first_token: Token of the tile's first row.

    Returns:
        Logits [batch, tokens], best [batch] and best_token [batch] int32.
    """
    x, w_head = working(x, w_head)
    logits = x @ w_head.T
    place = logits.argmax(axis=-1)
    best = np.take_along_axis(logits, place[:, None], axis=-1)[:, 0]
    return logits, best, (place + first_token).astype(np.int32)


def greedy(best: Sequence[Floats], best_token: Sequence[Ints]) -> Ints:
    """The token of the highest logit over tiles in the vocabulary's order; ties to the lowest.

    Args:
        best: One [batch] a tile.
        best_token: One [batch] a tile.

    Returns:
        [batch] int32.
    """
    winner = np.stack(best).argmax(axis=0)
    chosen: Ints = np.take_along_axis(np.stack(best_token), winner[None], axis=0)[0]
    return chosen
