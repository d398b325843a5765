"""The Scalar engine's activation functions, with the reductions it keeps in registers."""

from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.context import current
from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import OperatorFault
from neuronfleet.kernels.interpreter.isa.constants import reduce_cmd
from neuronfleet.kernels.interpreter.isa.elementwise import Operand, apply, numbers
from neuronfleet.kernels.interpreter.isa.reductions import registers_after
from neuronfleet.kernels.interpreter.issue import NkiInstruction, Step, fault, issue
from neuronfleet.kernels.interpreter.operators import BINARY, BYPASS, Operator
from neuronfleet.kernels.interpreter.platforms import nc_version
from neuronfleet.kernels.interpreter.tensors import NkiTensor


def activation(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    bias: Operand = None,
    scale: float | NkiTensor = 1.0,
    reduce_op: Operator | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = op(data x scale + bias) in float32, and its sum into the registers.

    `reduce_res` reads the registers; a `reduce_op` with it and an idle command resets and sums.
    """
    step = issue(
        "activation",
        "scalar",
        {"dst": dst, "reduce_res": reduce_res},
        {"data": data, "bias": bias, "scale": scale},
        name,
        {"op": getattr(op, "name", "?"), "reduce": reduce_cmd.name},
    )
    if reduce_res is not None and reduce_op is not None and reduce_cmd.name == "idle":
        command = "reset_reduce"
    else:
        command = reduce_cmd.name
    return _activate(step, dst, op, data, bias, scale, reduce_op, reduce_res, command)


def activation_reduce(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    reduce_op: Operator,
    reduce_res: NkiTensor,
    bias: Operand = None,
    scale: float | NkiTensor = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """`activation` with the sum of this one instruction."""
    step = issue(
        "activation_reduce",
        "scalar",
        {"dst": dst, "reduce_res": reduce_res},
        {"data": data, "bias": bias, "scale": scale},
        name,
        {"op": getattr(op, "name", "?"), "reduce": "reset_reduce"},
    )
    return _activate(step, dst, op, data, bias, scale, reduce_op, reduce_res, "reset_reduce")


def _activate(
    step: Step,
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    bias: Operand,
    scale: float | NkiTensor,
    reduce_op: Operator | None,
    reduce_res: NkiTensor | None,
    command: str,
) -> NkiInstruction:
    if not rules.operator(op).unary:
        raise fault(
            OperatorFault, f"{op!r} is no activation function", None, "a function of one value"
        )
    rules.on_chip(dst, data, reduce_res)
    rules.same_layout(dst, data)
    rules.column(bias, data)
    rules.column(scale, data)
    if reduce_res is not None:
        rules.column(reduce_res, data)
    if reduce_op is not None and reduce_op != BINARY["add"]:
        raise fault(OperatorFault, f"reduces with {reduce_op!r}", None, "nl.add")

    def compute() -> None:
        values = access.flat(data) * numbers(scale, data)
        if bias is not None:
            values = values + numbers(bias, data)
        result = np.asarray(op.function(values), np.float32)
        total = _summed(result, command)
        access.write(dst, result)
        if reduce_res is not None:
            access.write(reduce_res, total)

    return step.run(compute)


def _summed(values: Array, command: str) -> Array:
    """The Scalar engine's registers after one instruction, [P, 1]."""
    core = current()
    if core.scalar_registers is None:
        core.scalar_registers = np.zeros(128, np.float32)
    rows = values.shape[0]
    if command in ("reset", "reset_reduce"):
        core.scalar_registers[:rows] = 0
    if command in ("reduce", "reset_reduce"):
        core.scalar_registers[:rows] += values.sum(1)
    return core.scalar_registers[:rows].reshape(rows, 1)


def activate2(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    imm0: Operand,
    imm1: Operand,
    op0: Operator | None,
    op1: Operator | None,
    relu_param: float | NkiTensor = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Operator | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = op((data op0 imm0) op1 imm1), on trn3."""
    step = issue(
        "activate2",
        "scalar",
        {"dst": dst, "reduce_res": reduce_res},
        {"data": data, "imm0": imm0, "imm1": imm1},
        name,
        {"op": op.name},
    )
    rules.since(nc_version.gen4)
    rules.on_chip(dst, data, reduce_res)
    rules.same_layout(dst, data)

    def compute() -> None:
        values: Any = access.flat(data)
        values = apply(op0 or BYPASS, values, numbers(imm0, data), reverse=reverse0)
        values = apply(op1 or BYPASS, values, numbers(imm1, data), reverse=reverse1)
        result = np.asarray(op.function(values), np.float32)
        total = _summed(result, reduce_cmd.name)
        access.write(dst, result)
        if reduce_res is not None:
            access.write(reduce_res, total)

    return step.run(compute)


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: float | NkiTensor = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """Dst = exp(src - max_value) and its sum, by the Vector engine of trn3."""
    step = issue(
        "exponential",
        "vector",
        {"dst": dst, "reduce_res": reduce_res},
        {"src": src, "max_value": max_value, "reduce_init": reduce_init},
        name,
    )
    rules.since(nc_version.gen4)
    rules.on_chip(dst, src, reduce_res)
    rules.same_layout(dst, src)
    rules.column(max_value, src)

    def compute() -> None:
        values = np.exp(access.flat(src) - numbers(max_value, src))
        total = registers_after(values, BINARY["add"], reduce_cmd, reduce_init, src)
        access.write(dst, values)
        if reduce_res is not None:
            access.write(reduce_res, total)

    return step.run(compute)
