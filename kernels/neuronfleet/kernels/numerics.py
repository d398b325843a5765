"""What the references share: the dtype they work in, and functions that stay finite.

A reference works in float64 where any of its inputs is float64, else in float32; bfloat16 is
widened. So one function is both the oracle and the float32 model of the kernel.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]


def working(*arrays: Floats) -> tuple[Floats, ...]:
    """The arrays in the dtype that they are worked in: float64 if any is, else float32."""
    wide = any(array.dtype == np.float64 for array in arrays)
    dtype = np.float64 if wide else np.float32
    return tuple(np.asarray(array, dtype=dtype) for array in arrays)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), exact in both tails; any shape."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small), dtype=x.dtype)


def silu(x: Floats) -> Floats:
    """X * sigmoid(x); any shape."""
    return x * sigmoid(x)


def softplus(x: Floats) -> Floats:
    """log(1 + exp(x)) without overflow; any shape."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def softmax(x: Floats) -> Floats:
    """Softmax over the last axis, its maximum subtracted first."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True), dtype=x.dtype)


def check_range(name: str, values: Ints, limit: int) -> None:
    """Refuse an index that NumPy would wrap around or that points past the end.

    Raises:
        ValueError: a value is not in [0, limit).
    """
    outside = values[(values < 0) | (values >= limit)]
    if outside.size:
        raise ValueError(f"{name} = {outside.flat[0]}, must be in [0, {limit})")
