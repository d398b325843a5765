"""Registers: whole numbers that are data at run time."""

from neuronfleet.kernels.interpreter.objects import NKIObject


class VirtualRegister(NKIObject):
    """A register; an induction variable or condition is one that the kernel may only read."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.state = int(state or 0)
        self.frozen = frozen

    def __int__(self) -> int:
        return self.state

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.state != 0

    def __add__(self, other: object) -> int:
        return self.state + int(other)  # type: ignore[call-overload, no-any-return]

    __radd__ = __add__

    def __sub__(self, other: object) -> int:
        return self.state - int(other)  # type: ignore[call-overload, no-any-return]

    def __rsub__(self, other: object) -> int:
        return int(other) - self.state  # type: ignore[call-overload, no-any-return]

    def __mul__(self, other: object) -> int:
        return self.state * int(other)  # type: ignore[call-overload, no-any-return]

    __rmul__ = __mul__
