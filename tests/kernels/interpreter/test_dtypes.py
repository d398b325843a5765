import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.kernels.interpreter import dtypes, faults


def test_integers_round_to_even_and_saturate() -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, 300.0, -7.0, np.nan, np.inf], np.float32)

    assert dtypes.convert(values, dtypes.uint8).tolist() == [0, 2, 2, 0, 255, 0, 0, 255]
    assert dtypes.convert(values, dtypes.int8).tolist() == [0, 2, 2, 0, 127, -7, 0, 127]


def test_wide_integers_saturate_into_narrow_ones() -> None:
    assert dtypes.convert(np.array([300, -300]), dtypes.int8).tolist() == [127, -128]


def test_bfloat16_rounds_to_nearest_even() -> None:
    halves = np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)  # halfway between neighbours

    assert dtypes.convert(halves, dtypes.bfloat16).astype(np.float32).tolist() == [1.0, 1 + 2**-6]


def test_the_legacy_fp8_ends_at_240_and_the_ocp_one_at_448() -> None:
    value = np.array([256.0], np.float32)

    assert np.isinf(dtypes.convert(value, dtypes.float8_e4m3).astype(np.float32))
    assert dtypes.convert(value, dtypes.float8_e4m3fn).astype(np.float32) == 256


@given(
    st.floats(
        width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**99), max_value=2.0**99
    )
)
def test_tfloat32_keeps_ten_bits(value: float) -> None:
    kept = float(dtypes.convert(np.array([value], np.float32), dtypes.tfloat32)[0])

    assert abs(kept - value) <= abs(value) * 2**-11 + 1e-38


@pytest.mark.parametrize("name", ["float64", "int64", "nonsense"])
def test_types_the_device_lacks_are_refused(name: str) -> None:
    with pytest.raises(faults.DtypeFault, match=name):
        dtypes.as_dtype(name)
