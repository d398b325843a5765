"""Running kernels: `nki.jit`, the launch grid, and runs with settings and a trace of their own."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuronfleet.kernels.interpreter import liveness, platform_choice
from neuronfleet.kernels.interpreter.context import Core, Settings, enter, running
from neuronfleet.kernels.interpreter.dtypes import as_dtype, bfloat16
from neuronfleet.kernels.interpreter.faults import (
    DeadlockFault,
    KernelFault,
    LanguageFault,
    PlatformFault,
)
from neuronfleet.kernels.interpreter.liveness import Peak
from neuronfleet.kernels.interpreter.memory import MemoryRegion, Storage
from neuronfleet.kernels.interpreter.network import Network
from neuronfleet.kernels.interpreter.tensors import NkiTensor
from neuronfleet.kernels.interpreter.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a launch gave."""

    outputs: Any
    """What the kernel returned, tensors as NumPy arrays; a list by rank for several ranks."""
    traces: tuple[Trace, ...]
    """By rank, then by core."""
    peaks: tuple[Peak, ...]
    """SBUF and PSUM of each core, in the traces' order."""


class Kernel:
    """A function that runs on NeuronCores: called plainly, or with a grid, `kernel[2](...)`."""

    def __init__(self, function: Callable[..., Any], cores: int = 1) -> None:
        self.func = function
        self.cores = cores
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: int | tuple[int, ...]) -> "Kernel":
        return Kernel(self.func, int(grid[0]) if isinstance(grid, tuple) else int(grid))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outputs as NumPy arrays, with the chosen settings; inlined inside of a kernel."""
        if running() is not None:
            return self.func(*args, **kwargs)  # a kernel inside of a kernel is inlined
        return run(self, args, kwargs, settings=platform_choice.chosen()).outputs


def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Make a kernel of a function; options are the compiler's and mean nothing here."""
    if fn is None:
        return jit
    return fn if isinstance(fn, Kernel) else Kernel(fn)


def simulate(kernel: Callable[..., Any]) -> Kernel:
    """The kernel, to be called on NumPy arrays."""
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def run(
    kernel: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    settings: Settings,
) -> Run:
    """Run a kernel on one rank.

    Raises:
        KernelFault: The first fault of any core.
    """
    whole = run_ranks(kernel, [(tuple(args), kwargs or {})], settings=settings)
    return Run(outputs=whole.outputs[0], traces=whole.traces, peaks=whole.peaks)


def run_ranks(
    kernel: Callable[..., Any],
    arguments: Sequence[tuple[Sequence[Any], Mapping[str, Any]]],
    *,
    settings: Settings,
) -> Run:
    """Run a kernel on several ranks at once, each with arguments of its own."""
    one = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    if one.cores > settings.platform.cores_per_logical:
        raise PlatformFault(
            f"a grid of {one.cores} cores",
            limit=f"{settings.platform.cores_per_logical} on {settings.platform.name}",
        )
    network = Network(len(arguments) * one.cores)
    lock = threading.Lock()
    shared: dict[tuple[int, int], Storage] = {}
    seats: list[_Seat] = []
    for rank, (args, kwargs) in enumerate(arguments):
        inputs = _Inputs()
        given = [inputs.tensor(a, str(n)) for n, a in enumerate(args)]
        named = {k: inputs.tensor(v, k) for k, v in kwargs.items()}
        for number in range(one.cores):
            core = Core(
                settings=settings,
                rank=rank,
                core=number,
                cores=one.cores,
                trace=Trace(rank, number),
                network=network,
                shared=shared,
                shared_lock=lock,
            )
            seats.append(_Seat(core, one.func, given, named))
    _play(seats)
    _raise_first([s.failure for s in seats])
    peaks = tuple(p for s in seats for p in _peaks(s.core))
    results = [_arrays(s.result) for s in seats if s.core.core == 0]
    return Run(outputs=results, traces=tuple(s.core.trace for s in seats), peaks=peaks)


def _peaks(core: Core) -> list[Peak]:
    platform = core.settings.platform
    found = []
    for region in (MemoryRegion.sbuf, MemoryRegion.psum):
        one = liveness.peak(core.trace, core.storages, region, platform)
        if core.settings.strict:
            liveness.require_fits(one, platform)
        found.append(one)
    return found


class _Inputs:
    """A rank's arguments as tensors, with serials that no allocation has."""

    def __init__(self) -> None:
        self.count = 0

    def tensor(self, value: Any, name: str) -> Any:
        """An array as a tensor in HBM; containers by element; anything else as it is."""
        if isinstance(value, tuple | list):
            return type(value)(self.tensor(v, f"{name}[{n}]") for n, v in enumerate(value))
        array = _as_numpy(value)
        if array is None:
            return value
        self.count += 1
        array = array.astype(np.uint8) if array.dtype == np.bool_ else array
        kind = as_dtype(array.dtype)
        storage = Storage.of(array, kind, name=name, serial=-self.count)
        return NkiTensor(array.shape, kind, storage, MemoryRegion.shared_hbm, name)


def _as_numpy(value: Any) -> Any:
    """A NumPy array for an array or a torch tensor, else None."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
        plain = value.detach().cpu()
        if str(plain.dtype) == "torch.bfloat16":  # NumPy's bridge lacks it
            return plain.float().numpy().astype(bfloat16.numpy)
        return plain.numpy()
    return None


def _arrays(result: Any) -> Any:
    if isinstance(result, NkiTensor):
        if result.storage.array is None:
            return np.zeros(result.shape, result.dtype.numpy)
        return result.storage.array.reshape(result.storage.shape).reshape(result.shape).copy()
    if isinstance(result, tuple | list):
        return type(result)(_arrays(one) for one in result)
    return result


class _Seat:
    """One core's thread."""

    def __init__(
        self, core: Core, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        self.core = core
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.failure: BaseException | None = None

    def play(self) -> None:
        """Run the program and leave the network, whatever happens."""
        enter(self.core)
        try:
            self.result = self.function(*self.args, **self.kwargs)
        except BaseException as error:
            self.failure = error
        finally:
            enter(None)
            self.core.network.leave(self.core.seat)


def _play(seats: list[_Seat]) -> None:
    if len(seats) == 1:
        seats[0].play()
        return
    threads = [threading.Thread(target=seat.play, daemon=True) for seat in seats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _raise_first(failures: Sequence[BaseException | None]) -> None:
    """The cause, not its consequence: a core that fails leaves the others waiting."""
    found = [f for f in failures if f is not None]
    causes = [f for f in found if not isinstance(f, DeadlockFault)]
    for failure in (*causes, *found):
        raise failure


__all__ = ["Kernel", "KernelFault", "LanguageFault", "Run", "jit", "run", "run_ranks", "simulate"]
