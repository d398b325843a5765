"""A table of kernels that the device would refuse, each with the fault it must get."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neuronfleet.kernels.interpreter import faults, launch, platforms
from neuronfleet.kernels.interpreter import isa as nisa
from neuronfleet.kernels.interpreter import language as nl
from neuronfleet.kernels.interpreter.context import Settings
from neuronfleet.kernels.interpreter.operators import BINARY, UNARY

SETTINGS = Settings(platform=platforms.TRN2)
ADD, MULTIPLY, EXP = BINARY["add"], BINARY["multiply"], UNARY["exp"]
F32, BF16, I32, U8 = "float32", "bfloat16", "int32", "uint8"
Fault = type[faults.KernelFault]


def tile(shape: tuple[int, ...], dtype: str = F32, buffer: Any = nl.sbuf) -> Any:
    return nl.zeros(shape, dtype, buffer)


def raw(shape: tuple[int, ...], dtype: str = F32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype, buffer)


def product(k: int = 128, m: int = 128, n: int = 512, left: str = BF16, right: str = BF16) -> None:
    nisa.nc_matmul(raw((m, n), F32, nl.psum), tile((k, m), left), tile((k, n), right))


def across_banks() -> None:
    psum = raw((128, 1024), F32, nl.psum)
    nisa.nc_matmul(psum[:, 256:768], tile((128, 128), BF16), tile((128, 512), BF16))


def accumulates_on_nothing() -> None:
    psum = raw((128, 512), F32, nl.psum)
    left, right = tile((128, 128), BF16), tile((128, 512), BF16)
    nisa.nc_matmul(psum, left, right, accumulate=True)


def live_too_much() -> None:
    kept = [tile((128, 16 * 1024)) for _ in range(4)]  # 4 x 64 KiB in a partition
    for one in kept:
        nisa.tensor_scalar(one, one, ADD, 1.0)


def psum_live_too_much() -> None:
    kept = [raw((128, 512), F32, nl.psum) for _ in range(9)]
    left, right = tile((128, 128), BF16), tile((128, 512), BF16)
    for one in kept:
        nisa.nc_matmul(one, left, right)
    total = tile((128, 512))
    for one in kept:
        nisa.tensor_tensor(total, total, one, ADD)


def partly_written() -> None:
    data = raw((128, 64))
    nisa.memset(data[:, 0:32], 0.0)
    nisa.tensor_copy(tile((128, 64)), data)


def gathers_beyond() -> None:
    rows = nl.ndarray((4, 8), F32, nl.private_hbm)
    nisa.dma_copy(rows, tile((4, 8)))
    where = raw((4, 1), "uint32")
    nisa.memset(where, 9)
    nisa.dma_copy(raw((4, 8)), rows.ap([[8, 4], [1, 8]], vector_offset=where))


def dma_from_psum() -> None:
    nisa.dma_copy(nl.ndarray((128, 4), F32, nl.shared_hbm), tile((128, 4), F32, nl.psum))


def writes_induction_register() -> None:
    nl.fori_loop(0, 2, lambda i: nisa.register_move(i, 3))


def assigns() -> None:
    tile((4, 4))[0:2] = 1.0


Bad = tuple[str, Callable[[], Any], Fault, str]
TABLE: list[Bad] = [
    ("200 partitions", lambda: raw((200, 4)), faults.PartitionFault, "128 partitions"),
    ("96 partitions from 32", lambda: nisa.memset(raw((128, 4))[32:128], 0.0),
     faults.PartitionFault, "start at 0"),
    ("64 partitions from 32", lambda: nisa.memset(raw((128, 4))[32:96], 0.0),
     faults.PartitionFault, "0 or 64"),
    ("start at partition 5", lambda: nisa.memset(raw((128, 4))[5:6], 0.0),
     faults.PartitionFault, "0 or 32 or 64 or 96"),
    ("SBUF tensor too wide", lambda: raw((128, 60000)), faults.CapacityFault, "212464 bytes"),
    ("PSUM tensor too wide", lambda: raw((128, 4097), F32, nl.psum), faults.CapacityFault, "16384"),
    ("SBUF live", live_too_much, faults.CapacityFault, "212464 bytes on trn2"),
    ("PSUM live", psum_live_too_much, faults.CapacityFault, "16384 bytes on trn2"),
    ("read before write", lambda: nisa.tensor_copy(tile((4, 4)), raw((4, 4))),
     faults.UninitialisedRead, "16 of 16"),
    ("partly written", partly_written, faults.UninitialisedRead, "4096 of 8192"),
    ("matmul across banks", across_banks, faults.BankFault, "one bank of 2048 bytes"),
    ("accumulate first", accumulates_on_nothing, faults.AccumulationFault, "accumulate=False"),
    ("moving too wide", lambda: product(n=513), faults.ShapeFault, "512 moving columns"),
    ("stationary too wide", lambda: nisa.nc_matmul(
        raw((128, 8), F32, nl.psum), tile((128, 130), BF16), tile((128, 8), BF16)),
     faults.ShapeFault, "128 stationary columns"),
    ("float32 with bfloat16", lambda: product(left=F32), faults.DtypeFault, "float32 pairs"),
    ("matmul of integers", lambda: product(left=I32, right=I32), faults.DtypeFault, "float8_e4m3"),
    ("contraction differs", lambda: nisa.nc_matmul(
        raw((8, 8), F32, nl.psum), tile((64, 8), BF16), tile((32, 8), BF16)),
     faults.ShapeFault, "64 rows"),
    ("matmul into SBUF", lambda: nisa.nc_matmul(
        raw((8, 8)), tile((64, 8), BF16), tile((64, 8), BF16)), faults.BufferFault, "PSUM"),
    ("matmul from PSUM", lambda: nisa.nc_matmul(
        raw((8, 8), F32, nl.psum), tile((64, 8), F32, nl.psum), tile((64, 8))),
     faults.BufferFault, "SBUF"),
    ("bfloat16 accumulation", lambda: nisa.nc_matmul(
        raw((8, 8), BF16, nl.psum), tile((64, 8), BF16), tile((64, 8), BF16)),
     faults.DtypeFault, "float32"),
    ("OCP fp8 on trn2", lambda: product(left="float8_e4m3fn", right="float8_e4m3fn"),
     faults.PlatformFault, "trn3"),
    ("DMA from PSUM", dma_from_psum, faults.BufferFault, "HBM and SBUF"),
    ("compute from HBM", lambda: nisa.tensor_copy(
        raw((4, 4)), tile((4, 4), F32, nl.private_hbm)), faults.BufferFault, "SBUF or PSUM"),
    ("GpSimd from PSUM", lambda: nisa.tensor_tensor(
        raw((4, 4)), tile((4, 4), F32, nl.psum), tile((4, 4)), ADD, engine=nisa.engine.gpsimd),
     faults.BufferFault, "SBUF"),
    ("two PSUM inputs", lambda: nisa.tensor_tensor(
        raw((4, 4)), tile((4, 4), F32, nl.psum), tile((4, 4), F32, nl.psum), ADD),
     faults.BufferFault, "one input in PSUM"),
    ("shapes differ", lambda: nisa.tensor_tensor(raw((4, 4)), tile((4, 4)), tile((4, 5)), ADD),
     faults.ShapeFault, "4 partitions of 4"),
    ("operand no column", lambda: nisa.tensor_scalar(raw((4, 4)), tile((4, 4)), ADD, tile((4, 2))),
     faults.ShapeFault, "(4, 1)"),
    ("bits with arithmetic", lambda: nisa.tensor_scalar(
        raw((4, 4), I32), tile((4, 4), I32), BINARY["bitwise_and"], 1, op1=ADD, operand1=1),
     faults.OperatorFault, "both on bits"),
    ("bits of floats", lambda: nisa.tensor_scalar(
        raw((4, 4)), tile((4, 4)), BINARY["bitwise_and"], 1), faults.DtypeFault, "integer type"),
    ("activation as ALU op", lambda: nisa.tensor_scalar(raw((4, 4)), tile((4, 4)), EXP, None),
     faults.OperatorFault, "ALU operator"),
    ("ALU op as activation", lambda: nisa.activation(raw((4, 4)), ADD, tile((4, 4))),
     faults.OperatorFault, "function of one value"),
    ("activation reduces by max", lambda: nisa.activation(
        raw((4, 4)), EXP, tile((4, 4)), reduce_op=BINARY["maximum"], reduce_res=raw((4, 1))),
     faults.OperatorFault, "nl.add"),
    ("reduce over partitions", lambda: nisa.tensor_reduce(raw((1, 4)), ADD, tile((4, 4)), 0),
     faults.ShapeFault, "without the first"),
    ("transpose changes dtype", lambda: nisa.nc_transpose(
        raw((4, 8), F32, nl.psum), tile((8, 4), BF16)), faults.DtypeFault, "bfloat16"),
    ("vector transposes 64", lambda: nisa.nc_transpose(
        raw((64, 64)), tile((64, 64)), engine=nisa.engine.vector), faults.ShapeFault, "32 x 32"),
    ("max8 of four", lambda: nisa.max8(raw((4, 8)), tile((4, 4))), faults.ShapeFault, "8..16384"),
    ("shuffle of 16", lambda: nisa.nc_stream_shuffle(raw((32, 4)), tile((32, 4)), [0] * 16),
     faults.ShapeFault, "32 elements"),
    ("half a number in integers", lambda: nisa.memset(raw((4, 4), I32), 0.5),
     faults.DtypeFault, "whole number"),
    ("copy of other size", lambda: nisa.dma_copy(raw((4, 4)), tile((4, 5))),
     faults.ShapeFault, "16 elements"),
    ("hwdge converts", lambda: nisa.dma_copy(
        raw((4, 4), BF16), tile((4, 4)), dge_mode=nisa.dge_mode.hwdge),
     faults.DtypeFault, "does not convert"),
    ("dma_compute multiplies", lambda: nisa.dma_compute(raw((4, 4)), [tile((4, 4))], MULTIPLY),
     faults.OperatorFault, "nl.add"),
    ("slice beyond", lambda: raw((4, 4))[:, 0:5], faults.OutOfBounds, "4 elements"),
    ("pattern beyond", lambda: nisa.tensor_copy(raw((4, 5)), tile((4, 4)).ap([[4, 4], [1, 5]])),
     faults.OutOfBounds, "0..15"),
    ("pattern into the next partition", lambda: nisa.tensor_copy(
        raw((2, 5)), tile((4, 4)).ap([[4, 2], [1, 5]])), faults.OutOfBounds, "0..3"),
    ("gather beyond", gathers_beyond, faults.OutOfBounds, "0..31"),
    ("reshape of partitions", lambda: raw((4, 4)).reshape((2, 8)), faults.ShapeFault, "stays"),
    ("float64", lambda: nl.ndarray((4, 4), np.float64), faults.DtypeFault, "float64"),
    ("buffer as string", lambda: nl.ndarray((4, 4), F32, buffer="sbuf"),  # type: ignore[arg-type]
     faults.BufferFault, "nl.sbuf"),
    ("assignment", assigns, faults.LanguageFault, "tensor_copy"),
    ("induction register", writes_induction_register, faults.LanguageFault, "by value"),
    ("trn3's exponential", lambda: nisa.exponential(raw((4, 4)), tile((4, 4))),
     faults.PlatformFault, "gen4"),
    ("wrapper broadcasts", lambda: ADD(tile((4, 4)), tile((4, 1))), faults.ShapeFault, "broadcast"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "words"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE]
)
def test_a_bad_kernel_gets_its_fault(body: Callable[[], Any], kind: Fault, words: str) -> None:
    with pytest.raises(faults.KernelFault) as caught:
        launch.run(body, settings=SETTINGS)

    assert type(caught.value) is kind
    assert words in str(caught.value)


def test_a_fault_names_line_instruction_operand_shape_and_limit() -> None:
    with pytest.raises(faults.ShapeFault) as caught:
        launch.run(lambda: product(n=513), settings=SETTINGS)

    fault = caught.value
    assert fault.place is not None
    assert fault.place[0] == __file__
    assert fault.place[1] == product.__code__.co_firstlineno + 1
    assert (fault.instruction, fault.operand, fault.shape) == ("nc_matmul", "moving", (128, 513))
    assert fault.limit == "512 moving columns"


def test_what_trn2_refuses_trn3_may_take() -> None:
    trn3 = replace(SETTINGS, platform=platforms.TRN3)

    launch.run(lambda: product(n=1024), settings=trn3)
    launch.run(lambda: nisa.exponential(raw((4, 4)), tile((4, 4))), settings=trn3)


def test_trn1_has_less_sbuf_than_trn2() -> None:
    wide = lambda: raw((128, 50000))  # noqa: E731 - 200 000 bytes a partition

    launch.run(wide, settings=SETTINGS)
    with pytest.raises(faults.CapacityFault, match="180224 bytes on trn1"):
        launch.run(wide, settings=replace(SETTINGS, platform=platforms.TRN1))


def test_tensors_in_other_quadrants_share_bytes() -> None:
    def kernel() -> None:
        kept = [tile((32, 40 * 1024)) for _ in range(5)]  # 160 KiB in a quadrant each
        for one in kept:
            nisa.tensor_scalar(one, one, ADD, 1.0)

    assert launch.run(kernel, settings=SETTINGS).peaks[0].nbytes == 200 * 1024


def test_tensors_that_live_after_each_other_share_bytes() -> None:
    def kernel() -> None:
        for _ in range(8):
            one = tile((128, 16 * 1024))
            nisa.tensor_scalar(one, one, ADD, 1.0)

    assert launch.run(kernel, settings=SETTINGS).peaks[0].nbytes == 64 * 1024
