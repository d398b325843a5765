"""Activation functions in float32, on arrays."""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any, Final

import numpy as np

from neuronfleet.kernels.interpreter.dtypes import Array


def erf(x: Array) -> Array:
    """Error function by a Chebyshev fit of erfc, fractional error below 1.2e-7.

    Source: Press et al., Numerical Recipes, section 6.2.
    """
    z = np.abs(np.asarray(x, np.float64))
    t = 1.0 / (1.0 + 0.5 * z)
    coefficients = (
        -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
        0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
    )  # fmt: skip
    series = np.zeros_like(z)
    for c in reversed(coefficients):
        series = series * t + c
    magnitude = 1.0 - t * np.exp(-z * z + series)
    return np.asarray(np.copysign(magnitude, x), np.float32)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.asarray(np.logaddexp(np.float32(0), x))


def _normal(x: Array) -> Array:
    """Density of the standard normal."""
    return np.asarray(np.exp(-0.5 * x * x) / sqrt(2 * pi))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + erf(x / sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))))


def _gelu_sigmoid_dx(x: Array) -> Array:
    gate = sigmoid(1.702 * x)
    return np.asarray(gate * (1 + 1.702 * x * (1 - gate)))


def _silu_dx(x: Array) -> Array:
    gate = sigmoid(x)
    return np.asarray(gate * (1 + x * (1 - gate)))


ACTIVATIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "abs": np.abs,
    "negative": np.negative,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "prelu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": _silu_dx,
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "erf": erf,
    "erf_dx": lambda x: 2 / sqrt(pi) * np.exp(-x * x),
    "gelu": _gelu,
    "gelu_dx": lambda x: 0.5 * (1 + erf(x / sqrt(2))) + x * _normal(x),
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": _gelu_sigmoid_dx,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arctan": np.arctan,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
}
