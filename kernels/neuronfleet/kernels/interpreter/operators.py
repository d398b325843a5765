"""Operators: both the `op` of an instruction and, called, an experimental wrapper."""

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from neuronfleet.kernels.interpreter import functions
from neuronfleet.kernels.interpreter.dtypes import Array

_DTYPE: Final = inspect.Parameter("dtype", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)


class Operator:
    """One operator.

    Attributes:
        name: In `nki.language`.
        function: On NumPy arrays.
        unary: Whether it takes one operand.
        bitvec: Whether it works on bits, without conversion to float32.
        start: Neutral element where the Vector engine can reduce with it.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Array],
        *,
        unary: bool = False,
        bitvec: bool = False,
        start: float | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.unary = unary
        self.bitvec = bitvec
        self.start = start
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        operands = [inspect.Parameter(n, plain) for n in (("x",) if unary else ("x", "y"))]
        self.__signature__ = inspect.Signature([*operands, _DTYPE])

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    def __deepcopy__(self, memo: object) -> "Operator":
        return self

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and other.name == self.name

    def __call__(self, *operands: Any, **options: Any) -> Any:
        """A new tensor: the experimental wrapper."""
        from neuronfleet.kernels.interpreter.language import wrappers

        bound = self.__signature__.bind(*operands, **options).arguments
        kind = bound.pop("dtype", None)
        return wrappers.elementwise(self, tuple(bound.values()), kind)

    def reduce(self, values: Array) -> Array:
        """Over the last axis, in order."""
        if isinstance(self.function, np.ufunc):
            return np.asarray(self.function.reduce(values, axis=-1))
        extreme = {"abs_max": np.max, "abs_min": np.min}[self.name]
        return np.asarray(extreme(np.abs(values), axis=-1))


def _truth(function: Any) -> Callable[..., Array]:
    """A comparison whose result counts as 1.0 or 0.0."""

    def compare(*values: Array) -> Array:
        return np.asarray(function(*values)).astype(np.float32)

    return compare


def _binary() -> list[Operator]:
    arithmetic: list[tuple[str, Any, float | None]] = [
        ("add", np.add, 0.0),
        ("subtract", np.subtract, 0.0),
        ("multiply", np.multiply, 1.0),
        ("maximum", np.maximum, -np.inf),
        ("minimum", np.minimum, np.inf),
        ("divide", np.divide, None),
        ("power", np.power, None),
        ("fmod", np.fmod, None),
        ("mod", np.mod, None),
        ("abs_max", lambda x, y: np.maximum(np.abs(x), np.abs(y)), 0.0),
        ("abs_min", lambda x, y: np.minimum(np.abs(x), np.abs(y)), np.inf),
        ("logical_and", np.logical_and, 1.0),
        ("logical_or", np.logical_or, 0.0),
        ("logical_xor", np.logical_xor, 0.0),
    ]
    truths = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    bits = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    return [
        *(Operator(name, function, start=start) for name, function, start in arithmetic),
        *(Operator(name, _truth(getattr(np, name))) for name in truths),
        *(Operator(name, getattr(np, name), bitvec=True, start=0.0) for name in bits),
    ]


BINARY: Final = {op.name: op for op in _binary()}
UNARY: Final = {
    name: Operator(name, function, unary=True) for name, function in functions.ACTIVATIONS.items()
}
INVERT: Final = Operator("invert", np.invert, unary=True, bitvec=True)
LOGICAL_NOT: Final = Operator("logical_not", _truth(np.logical_not), unary=True)
BYPASS: Final = Operator("bypass", lambda x, _=None: x)
TENSOR_SCALAR_UNARY: Final = frozenset({"abs", "square", "relu", "rsqrt", "reciprocal", "invert"})
"""Unary operators of the Vector engine, which take no operand."""
ALL: Final = {**BINARY, **UNARY, "invert": INVERT, "logical_not": LOGICAL_NOT, "bypass": BYPASS}
