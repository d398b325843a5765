"""The older language's functions over `older_api`, and running a candidate's file with them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter.trace import Trace
from tests.kernels.external.kda.older_api import HBM, PSUM, SBUF, ParDim, Place, Tile, Tracer

_MODULES = ("", ".nki", ".nki.language", ".nki.isa", ".nki.typing")


class _Open(ModuleType):
    """A module whose missing names are mere words: operators, activations, markers."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def trace_of(file: Path, inputs: Sequence[tuple[int, ...] | float | None]) -> Trace:
    """Run a candidate's `kernel` on inputs of these shapes; () where no shape is asked for."""
    tracer = Tracer()
    with _older(tracer):
        names: dict[str, Any] = {"__name__": "candidate"}
        exec(compile(file.read_text(), str(file), "exec"), names)
        arguments = [
            Tile(tracer, tracer.serial(), one, tracer.tile((1,), None, HBM).dtype, HBM)
            if isinstance(one, tuple)
            else one
            for one in inputs
        ]
        names["kernel"](*arguments)
    return tracer.trace


@contextmanager
def _older(tracer: Tracer) -> Iterator[None]:
    """`neuronxcc` for as long as a candidate runs."""
    made: dict[str, ModuleType] = {
        f"neuronxcc{name}": _Open(f"neuronxcc{name}") for name in _MODULES
    }
    nki, language, isa = (made[f"neuronxcc{n}"] for n in (".nki", ".nki.language", ".nki.isa"))
    for module, found in ((language, _language(tracer)), (isa, _isa(tracer))):
        for name, function in found.items():
            setattr(module, name, function)
    options: dict[str, Any] = {
        "jit": _plain, "trace": _plain, "language": language, "isa": isa,
        "typing": made["neuronxcc.nki.typing"],
    }  # fmt: skip
    for name, value in options.items():
        setattr(nki, name, value)
    made["neuronxcc"].__dict__["nki"] = nki
    made["neuronxcc.nki.typing"].__dict__["tensor"] = {}
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, old in before.items():
            sys.modules.pop(name)
            if old is not None:
                sys.modules[name] = old


def _plain(function: Any = None, **options: Any) -> Any:
    return function if function is not None else _plain


def _language(tracer: Tracer) -> dict[str, Any]:
    def ndarray(shape: Any, dtype: Any = None, buffer: Any = "sbuf", **_: Any) -> Tile:
        region = {"psum": PSUM, "sbuf": SBUF, None: SBUF}.get(buffer, HBM)
        return tracer.tile(shape, dtype, region)

    def zeros(shape: Any, dtype: Any = None, buffer: Any = "sbuf", **_: Any) -> Tile:
        tile = ndarray(shape, dtype, buffer)
        if tile.region is SBUF:
            tracer.emit("gpsimd", "memset", tile, {})
            tile.producer = None
        return tile  # PSUM's first product overwrites: nothing is set

    def load(src: Place, mask: Any = None, dtype: Any = None, **_: Any) -> Place:
        into = tracer.tile(src.shape, dtype or src.dtype, SBUF)
        return tracer.emit("dma", "dma_copy", into, {"src": src})

    def store(dst: Place, value: Place, mask: Any = None, **_: Any) -> None:
        tracer.emit("dma", "dma_copy", dst, {"src": value})

    def constant(values: Any, **_: Any) -> Tile:
        array = np.asarray(values)
        return tracer.tile(array.shape, "float32", HBM)

    words: dict[str, Any] = {
        "ndarray": ndarray, "zeros": zeros, "load": load, "store": store,
        "shared_constant": constant, "par_dim": ParDim, "arange": np.arange,
        "load_transpose2d": lambda src, **o: load(_turned(src), **o),
        "tile_size": SimpleNamespace(pmax=128, psum_fmax=512, gemm_moving_fmax=512,
                                     gemm_stationary_fmax=128),
        "copy": _unary(tracer, "vector", "tensor_copy"),
        "max": _reduce(tracer), "sum": _reduce(tracer), "min": _reduce(tracer),
        "mgrid": np.mgrid, "float32": "float32", "bfloat16": "bfloat16",
    }  # fmt: skip
    words |= dict.fromkeys(("affine_range", "sequential_range", "static_range"), range)
    words |= {n: _Word(n, _binary(tracer)) for n in ("add", "subtract", "multiply", "divide")}
    words |= {
        n: _Word(n, _unary(tracer, "scalar", "activation"))
        for n in ("exp", "rsqrt", "silu", "square", "sqrt", "sigmoid", "tanh")
    }
    words["maximum"] = _Word("maximum", _binary(tracer))
    return words


class _Word:
    """An operator's name that is also a function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.function(*args, **options)


def _isa(tracer: Tracer) -> dict[str, Any]:
    def nc_matmul(stationary: Place, moving: Place, **_: Any) -> Place:
        shape = (_free(stationary), _free(moving))
        into = tracer.tile(shape, "float32", PSUM)
        reads = {"stationary": stationary, "moving": moving}
        return tracer.emit("tensor", "nc_matmul", into, reads)

    def nc_transpose(data: Place, **_: Any) -> Place:
        into = tracer.tile((_free(data), data.shape[0]), data.dtype, PSUM)
        return tracer.emit("tensor", "nc_transpose", into, {"data": data})

    def activation(op: Any = None, data: Any = None, bias: Any = None, scale: Any = 1.0,
                   dtype: Any = None, **_: Any) -> Place:  # fmt: skip
        into = tracer.tile(data.shape, dtype or data.dtype, SBUF)
        reads = {"data": data, "bias": bias, "scale": scale}
        return tracer.emit("scalar", "activation", into, reads)

    def tensor_scalar(data: Place, op0: Any = None, operand0: Any = None, *_: Any,
                      operand1: Any = None, dtype: Any = None, **__: Any) -> Place:  # fmt: skip
        into = tracer.tile(data.shape, dtype or data.dtype, SBUF)
        reads = {"data": data, "operand0": operand0, "operand1": operand1}
        return tracer.emit("vector", "tensor_scalar", into, reads)

    def scalar_tensor_tensor(data: Place = None, op0: Any = None, operand0: Any = None,  # type: ignore[assignment]
                             op1: Any = None, operand1: Any = None, dtype: Any = None,
                             **_: Any) -> Place:  # fmt: skip
        into = tracer.tile(data.shape, dtype or data.dtype, SBUF)
        reads = {"data": data, "operand0": operand0, "operand1": operand1}
        return tracer.emit("vector", "scalar_tensor_tensor", into, reads)

    def scan(data0: Place, data1: Place, initial: Any = 0, op0: Any = None, op1: Any = None,
             dtype: Any = None, **_: Any) -> Place:  # fmt: skip
        into = tracer.tile(data0.shape, dtype or data0.dtype, SBUF)
        reads = {"data0": data0, "data1": data1, "initial": initial}
        return tracer.emit("vector", "tensor_tensor_scan", into, reads)

    def reduce(op: Any = None, data: Any = None, axis: Any = None, dtype: Any = None,
               **_: Any) -> Place:  # fmt: skip
        into = tracer.tile((data.shape[0], 1), dtype or data.dtype, SBUF)
        return tracer.emit("vector", "tensor_reduce", into, {"data": data})

    return {
        "engine": SimpleNamespace(tensor="tensor", vector="vector", scalar="scalar",
                                  gpsimd="gpsimd", unknown="unknown"),
        "nc_matmul": nc_matmul, "nc_transpose": nc_transpose, "activation": activation,
        "tensor_scalar": tensor_scalar, "scalar_tensor_tensor": scalar_tensor_tensor,
        "tensor_tensor_scan": scan, "tensor_reduce": reduce, "tensor_tensor": _binary(tracer),
        "reciprocal": _unary(tracer, "vector", "reciprocal"),
        "tensor_copy": _unary(tracer, "vector", "tensor_copy"),
    }  # fmt: skip


def _unary(tracer: Tracer, engine: str, opcode: str) -> Callable[..., Place]:
    def call(data: Place, dtype: Any = None, **_: Any) -> Place:
        into = tracer.tile(data.shape, dtype or data.dtype, SBUF)
        return tracer.emit(engine, opcode, into, {"data": data})

    return call


def _binary(tracer: Tracer) -> Callable[..., Place]:
    def call(data1: Any, data2: Any, op: Any = None, dtype: Any = None, **_: Any) -> Place:
        tensors = [d for d in (data1, data2) if isinstance(d, Place)]
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
        into = tracer.tile(shape, dtype or tensors[0].dtype, SBUF)
        narrow = len(tensors) < 2 or any(t.shape != shape for t in tensors)
        opcode = "tensor_scalar" if narrow else "tensor_tensor"
        return tracer.emit("vector", opcode, into, {"data1": data1, "data2": data2})

    return call


def _reduce(tracer: Tracer) -> Callable[..., Place]:
    def call(data: Place, axis: Any = None, dtype: Any = None, **_: Any) -> Place:
        into = tracer.tile((data.shape[0], 1), dtype or data.dtype, SBUF)
        return tracer.emit("vector", "tensor_reduce", into, {"data": data})

    return call


def _turned(src: Place) -> Place:
    shape = (src.shape[1], src.shape[0])
    return Place(src.tracer, src.serial, shape, src.dtype, src.region, src.partitions, src.extent)


def _free(place: Place) -> int:
    return int(np.prod(place.shape[1:]))
