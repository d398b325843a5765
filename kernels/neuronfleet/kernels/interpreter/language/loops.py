"""Loops: unrolled ones are ranges; loops of the device run their body by registers."""

from collections.abc import Callable, Iterator

from neuronfleet.kernels.interpreter.faults import LanguageFault, kernel_place
from neuronfleet.kernels.interpreter.registers import VirtualRegister
from neuronfleet.kernels.interpreter.views import DynamicSlice

Whole = int | VirtualRegister


def ds(start: Whole, size: int) -> DynamicSlice:
    """`size` elements from `start`."""
    return DynamicSlice(int(start), int(size))


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Iterations that do not depend on each other."""
    return range(int(start)) if stop is None else range(int(start), int(stop), int(step))


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Iterations in order."""
    return affine_range(start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Iterations unrolled by the compiler."""
    return affine_range(start, stop, step)


def dynamic_range(
    start: Whole, stop: Whole | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """A loop of the device, as before 0.6; `fori_loop` replaces it."""
    bounds = (0, int(start)) if stop is None else (int(start), int(stop))
    for n in range(*bounds, int(step)):
        yield VirtualRegister(n, frozen=True)


def fori_loop(
    lower: Whole, upper: Whole, body_fun: Callable[[VirtualRegister], None], step: int = 1
) -> None:
    """Run `body_fun(i)` for i in lower..upper.

    Raises:
        LanguageFault: For a step that is no positive number.
    """
    if not isinstance(step, int) or step <= 0:
        raise LanguageFault(f"step {step}", place=kernel_place(), limit="a positive constant")
    for n in range(int(lower), int(upper), step):
        body_fun(VirtualRegister(n, frozen=True))


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """Run `r = body_fun(r)` while r is not 0."""
    condition = init
    while condition:
        following = body_fun(VirtualRegister(int(condition)))
        if not isinstance(following, VirtualRegister):
            raise LanguageFault("a while_loop's body must return a register", place=kernel_place())
        condition = following
