"""Data types of the language, and the conversions that the engines make between them.

Engines compute in float32 and convert on the way in and out. Float to float rounds to nearest
even. Float to integer rounds to nearest even and saturates; NaN becomes 0.
"""

from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from neuronfleet.kernels.interpreter.faults import DtypeFault, kernel_place

Array = npt.NDArray[Any]


class DType(str):
    """A type's name that knows its representation; equal to the plain string, as in the wheel."""

    numpy: np.dtype[Any]
    itemsize: int
    """Bytes an element."""

    def __new__(cls, name: str, representation: npt.DTypeLike) -> "DType":
        """A type of that name, held as a NumPy type."""
        self = str.__new__(cls, name)
        self.numpy = np.dtype(representation)
        self.itemsize = self.numpy.itemsize
        return self

    __hash__ = str.__hash__

    def __deepcopy__(self, memo: object) -> "DType":
        return self

    def __copy__(self) -> "DType":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (str(self),)

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers; packed types count as floats."""
        return self.numpy.kind in "iu" and not self.is_packed

    @property
    def is_packed(self) -> bool:
        """Whether one element packs four small floats."""
        return self.endswith("_x4")


bool_: Final = DType("bool_", np.uint8)
int8: Final = DType("int8", np.int8)
int16: Final = DType("int16", np.int16)
int32: Final = DType("int32", np.int32)
uint8: Final = DType("uint8", np.uint8)
uint16: Final = DType("uint16", np.uint16)
uint32: Final = DType("uint32", np.uint32)
float16: Final = DType("float16", np.float16)
float32: Final = DType("float32", np.float32)
tfloat32: Final = DType("tfloat32", np.float32)
bfloat16: Final = DType("bfloat16", ml_dtypes.bfloat16)
float8_e4m3: Final = DType("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3fn: Final = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e5m2: Final = DType("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e8m0fnu: Final = DType("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
# Four elements in one word: the sizes are those of the words, the contents opaque here.
float8_e4m3fn_x4: Final = DType("float8_e4m3fn_x4", np.uint32)
float8_e5m2_x4: Final = DType("float8_e5m2_x4", np.uint32)
float4_e2m1fn_x4: Final = DType("float4_e2m1fn_x4", np.uint16)

ALL: Final[dict[str, DType]] = {
    t: t
    for t in (
        bool_, int8, int16, int32, uint8, uint16, uint32, float16, float32, tfloat32, bfloat16,
        float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu, float8_e4m3fn_x4,
        float8_e5m2_x4, float4_e2m1fn_x4,
    )
}  # fmt: skip
_FOREIGN: Final = {"bool": bool_, "float8e4": float8_e4m3, "float8e5": float8_e5m2}


def as_dtype(given: object) -> DType:
    """The language's type for a DType, a name, or a NumPy type.

    Raises:
        DtypeFault: For what the language lacks, float64 and int64 among it.
    """
    if isinstance(given, DType):
        return given
    name = given if isinstance(given, str) else np.dtype(given).name  # type: ignore[call-overload]
    found = ALL.get(name) or _FOREIGN.get(name)
    if found is None:
        raise DtypeFault(f"{name} is no type of the language", place=kernel_place())
    return found


def convert(values: npt.ArrayLike, to: DType) -> Array:
    """Values as an engine stores them: nearest even, and for integers saturated."""
    given = np.asarray(values)
    if given.dtype == to.numpy and to is not tfloat32:
        return given
    if to is tfloat32:
        return _to_tfloat32(given.astype(np.float32))
    if to.is_integer and given.dtype.kind not in "iub":
        bounds = np.iinfo(to.numpy)
        whole = np.nan_to_num(np.rint(given.astype(np.float64)), nan=0.0)
        return np.asarray(np.clip(whole, bounds.min, bounds.max).astype(to.numpy))
    if to.is_integer and given.dtype.kind in "iu":
        bounds = np.iinfo(to.numpy)
        return np.clip(given.astype(np.int64), bounds.min, bounds.max).astype(to.numpy)
    with np.errstate(over="ignore", invalid="ignore"):
        if given.dtype.kind not in "iub" or given.dtype == np.bool_:
            return given.astype(np.float32, copy=False).astype(to.numpy)
        return given.astype(to.numpy)


def _to_tfloat32(values: Array) -> Array:
    """Float32 with 10 bits of mantissa: 13 bits are rounded away, to nearest even."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(
        0xFFFFE000
    )
    return np.asarray(np.where(np.isfinite(values), rounded.view(np.float32), values))
