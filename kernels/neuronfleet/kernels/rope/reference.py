"""Partial rotary position embedding in NumPy, a position a sequence."""

import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.numerics import Floats, Ints, working


def rope_tables(
    positions: Ints, rotary_dim: int, theta: float, dtype: npt.DTypeLike
) -> tuple[Floats, Floats]:
    """Cosines and sines of every position: angle[n, i] = position[n] * theta^(-2i / rotary_dim).

    Text has one position where the model's multi-axis form has three equal ones, so that form
    is this one. Angles are formed in `dtype`: in float32, as the model was trained, an angle at
    position 131072 is off by up to 0.008 rad, which is the model's own and not ours to mend.

    Args:
        positions: [n], counted from 0.
        rotary_dim: Dimensions that rotate, an even number.
        theta: Base of the wavelengths.
        dtype: float32 or float64.

    Returns:
        Two of [n, rotary_dim / 2].
    """
    exponents = np.arange(0, rotary_dim, 2, dtype=dtype) / np.asarray(rotary_dim, dtype=dtype)
    frequencies = 1 / np.asarray(theta, dtype=dtype) ** exponents
    angles = positions.astype(dtype)[:, None] * frequencies
    return np.cos(angles), np.sin(angles)


def rope(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Heads with their first dimensions rotated; the others pass.

    With h = rotary_dim / 2 and i < h: y[i] = x[i] cos[i] - x[i+h] sin[i],
    y[i+h] = x[i+h] cos[i] + x[i] sin[i].

    Args:
        x: [n, heads, head_dim].
        cos: [n, rotary_dim / 2].
        sin: Likewise.

    Returns:
        [n, heads, head_dim].
    """
    x, cos, sin = working(x, cos, sin)
    half = cos.shape[-1]
    first, second, rest = np.split(x, (half, 2 * half), axis=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    turned = (first * cos - second * sin, second * cos + first * sin, rest)
    return np.concatenate(turned, axis=-1)
