"""Instructions and views against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.kernels.interpreter import isa as nisa
from neuronfleet.kernels.interpreter import language as nl
from neuronfleet.kernels.interpreter import launch, platforms
from neuronfleet.kernels.interpreter.context import Settings
from neuronfleet.kernels.interpreter.operators import BINARY, UNARY

SETTINGS = Settings(platform=platforms.TRN2)
RNG = np.random.default_rng(6)


def run(kernel: Any, *args: Any) -> Any:
    return launch.run(kernel, args, settings=SETTINGS).outputs


def out_of(tile: Any) -> Any:
    result = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(result, tile)
    return result


def test_products_accumulate_in_psum() -> None:
    def kernel(a: Any, b: Any) -> Any:
        psum = nl.ndarray((64, 300), "float32", nl.psum)
        for n in range(2):
            rows = slice(n * 128, n * 128 + 128)
            nisa.nc_matmul(psum, nl.load(a[rows]), nl.load(b[rows]))
        result = nl.ndarray((64, 300), "float32")
        nisa.tensor_copy(result, psum)
        return out_of(result)

    a = RNG.normal(size=(256, 64)).astype(np.float32)
    b = RNG.normal(size=(256, 300)).astype(np.float32)
    np.testing.assert_allclose(run(kernel, a, b), a.T @ b, rtol=1e-4, atol=1e-4)


def test_activation_scales_shifts_and_sums() -> None:
    def kernel(x: Any) -> Any:
        data, total = nl.load(x), nl.ndarray((8, 1), "float32")
        nisa.activation(
            data, UNARY["exp"], data, bias=-1.0, scale=0.5,
            reduce_op=BINARY["add"], reduce_res=total,
        )  # fmt: skip
        return out_of(total)

    x = RNG.normal(size=(8, 40)).astype(np.float32)
    want = np.exp(0.5 * x - 1).sum(1, keepdims=True)
    np.testing.assert_allclose(run(kernel, x), want, rtol=1e-5)


def test_equal_values_take_turns_in_opposite_orders() -> None:
    def kernel(x: Any, v: Any) -> Any:
        data, vals = nl.load(x), nl.load(v)
        found, places = nl.ndarray((1, 8), "uint32"), nl.ndarray((1, 8), "uint32")
        nisa.nc_find_index8(found, data, vals)
        nisa.nc_match_replace8(data, data, vals, 0.0, places)
        return out_of(found), out_of(places)

    x = np.array([[5, 9, 9, 1, 2, 3, 4, 6, 7]], np.float32)
    v = np.array([[9, 9, 7, 6, 5, 4, 3, 100]], np.float32)
    found, places = run(kernel, x, v)
    assert found[0].tolist() == [1, 2, 8, 7, 0, 6, 5, 2**32 - 1]
    assert places[0, :2].tolist() == [2, 1]


def test_a_gather_takes_rows_by_index_and_a_scatter_puts_them_back() -> None:
    def kernel(x: Any, where: Any) -> Any:
        index, rows = nl.load(where), nl.ndarray((4, 8), "float32")
        pattern = [[8, 4], [1, 8]]
        nisa.dma_copy(rows, x.ap(pattern, vector_offset=index))
        result = nl.zeros((6, 8), "float32", nl.shared_hbm)
        nisa.dma_copy(result.ap(pattern, vector_offset=index), rows)
        return out_of(rows), result

    x = RNG.normal(size=(6, 8)).astype(np.float32)
    where = np.array([[5], [0], [3], [2]], np.uint32)
    rows, back = run(kernel, x, where)
    np.testing.assert_array_equal(rows, x[where[:, 0]])
    kept = np.zeros_like(x)
    kept[where[:, 0]] = x[where[:, 0]]
    np.testing.assert_array_equal(back, kept)


def test_a_dynamic_offset_is_read_when_the_instruction_runs() -> None:
    def kernel(x: Any) -> Any:
        index, row = nl.zeros((1, 1), "int32"), nl.ndarray((1, 4), "float32")
        chosen = x.select(0, index)
        nisa.memset(index, 2)
        nisa.dma_copy(row, chosen.expand_dim(0))
        return out_of(row)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run(kernel, x), x[2:3])


def test_a_scan_is_a_recurrence() -> None:
    def kernel(a: Any, b: Any) -> Any:
        result = nl.ndarray((4, 16), "float32")
        nisa.tensor_tensor_scan(
            result, nl.load(a), nl.load(b), 0.5, BINARY["multiply"], BINARY["add"]
        )
        return out_of(result)

    a, b = RNG.normal(size=(2, 4, 16)).astype(np.float32)
    state, want = np.full(4, 0.5, np.float32), np.empty_like(a)
    for n in range(16):
        state = a[:, n] * state + b[:, n]
        want[:, n] = state
    np.testing.assert_allclose(run(kernel, a, b), want, rtol=1e-5)


def test_a_shuffle_moves_in_quadrants_and_255_keeps() -> None:
    def kernel(x: Any) -> Any:
        data = nl.load(x)
        nisa.nc_stream_shuffle(data, data, [1, 0] + [255] * 30)
        return out_of(data)

    x = np.arange(64, dtype=np.float32).reshape(64, 1)
    order = np.arange(64)
    order[[0, 1, 32, 33]] = [1, 0, 33, 32]
    np.testing.assert_array_equal(run(kernel, x), x[order])


@settings(max_examples=40, deadline=None)
@given(st.permutations([1, 2, 3]), st.integers(0, 1), st.integers(1, 2))
def test_views_are_numpys(order: list[int], start: int, step: int) -> None:
    x = np.arange(4 * 3 * 4 * 5, dtype=np.float32).reshape(4, 3, 4, 5)
    axes = (0, *order)

    def kernel(given: Any) -> Any:
        seen = nl.load(given).permute(axes)[:, :, start : start + 2 : step]
        result = nl.ndarray(seen.shape, "float32")
        nisa.tensor_copy(result, seen)
        return out_of(result)

    want = x.transpose(axes)[:, :, start : start + 2 : step]
    np.testing.assert_array_equal(run(kernel, x), want)


def test_two_cores_exchange_tiles() -> None:
    def kernel(x: Any) -> Any:
        me = nl.program_id(0)
        mine, other = nl.load(x[me]), nl.ndarray((4, 8), "float32")
        nisa.sendrecv(mine, other, 1 - me, 1 - me, 0)
        result = nl.ndarray((2, 4, 8), "float32", nl.shared_hbm)
        nisa.dma_copy(result[me], other)
        nisa.core_barrier(result, (0, 1))
        return result

    x = RNG.normal(size=(2, 4, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(launch.jit(kernel)[2], x), x[::-1])


def test_a_deadlock_names_both_lines() -> None:
    def kernel() -> None:
        me, one = nl.program_id(0), nl.zeros((4, 8), "float32")
        if me == 0:
            nisa.sendrecv(one, one, 1, 1, 0)
        else:
            nisa.sendrecv(one, one, 0, 0, 1)

    first = kernel.__code__.co_firstlineno
    with pytest.raises(launch.KernelFault) as caught:
        run(launch.jit(kernel)[2])
    assert f":{first + 3} for core 1" in str(caught.value)
    assert f":{first + 5} for core 0" in str(caught.value)


def test_ranks_reduce_to_equal_sums() -> None:
    from neuronfleet.kernels.interpreter import collectives

    def kernel(x: Any) -> Any:
        total = nl.ndarray(x.shape, "float32", nl.shared_hbm)
        group = collectives.ReplicaGroup([[0, 1, 2, 3]])
        collectives.all_reduce([x], [total], group, BINARY["add"])
        return total

    parts = RNG.normal(size=(4, 8)).astype(np.float32)
    whole = launch.run_ranks(kernel, [((p,), {}) for p in parts], settings=SETTINGS)
    for got in whole.outputs:
        np.testing.assert_allclose(got, parts.sum(0), rtol=1e-5)
