"""RMSNorm in NumPy."""

import numpy as np

from neuronfleet.kernels.numerics import Floats, working


def rmsnorm(x: Floats, weight: Floats, eps: float = 1e-6, zero_centred: bool = False) -> Floats:
    """Rows over their root mean square, times a gain.

    y = x / sqrt(mean(x^2) + eps) * gain; gain = 1 + weight where the weight is zero-centred.

    Args:
        x: [..., width].
        weight: [width].
        eps: Added to the mean square.
        zero_centred: Whether the checkpoint stores gain - 1, as Qwen3.5 does but for DeltaNet.

    Returns:
        [..., width], in the dtype worked in.
    """
    x, weight = working(x, weight)
    gain = 1 + weight if zero_centred else weight
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return np.asarray(x / np.sqrt(mean_square + eps) * gain, dtype=x.dtype)
