"""The core that a thread plays: its settings, trace and registers."""

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import LanguageFault, kernel_place
from neuronfleet.kernels.interpreter.memory import Storage
from neuronfleet.kernels.interpreter.network import Network
from neuronfleet.kernels.interpreter.platforms import Platform
from neuronfleet.kernels.interpreter.trace import Trace

if TYPE_CHECKING:
    from neuronfleet.kernels.interpreter.issue import Step


class Unwritten(Enum):
    """What a read of unwritten memory does."""

    FAULT = "fault"
    """Stop, with the kernel's line."""
    POISON = "poison"
    """Give NaN, as AWS's simulator does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a kernel is run."""

    platform: Platform
    unwritten: Unwritten = Unwritten.FAULT
    numbers: bool = True
    """Whether to compute; without, only shapes are checked and traced, and data reads as 0."""
    strict: bool = True
    """Whether the limits AWS's simulator lets pass (start partitions, capacity) are faults."""


@dataclass(slots=True)
class Core:
    """One NeuronCore while it runs one kernel."""

    settings: Settings
    rank: int
    """Replica, for collectives."""
    core: int
    """NeuronCore in the logical core; `program_id`."""
    cores: int
    """NeuronCores that run the kernel; `num_programs`."""
    trace: Trace
    network: Network
    shared: dict[tuple[int, int], Storage]
    """Tensors in shared HBM that all cores of a rank allocate together: (rank, order)."""
    shared_lock: threading.Lock
    shared_count: int = 0
    storages: list[Storage] = field(default_factory=list)
    step: "Step | None" = None
    """The instruction in execution, for faults."""
    scalar_registers: Array | None = None
    """Reduction registers of the Scalar engine, [128] float32."""
    vector_registers: Array | None = None
    """Reduction registers of the Vector engine, [128] float32."""
    messages: dict[str, int] = field(default_factory=dict)
    """Messages sent so far on each channel."""

    @property
    def seat(self) -> int:
        """Position among all cores of all ranks."""
        return self.rank * self.cores + self.core


class _Local(threading.local):
    core: Core | None = None


_LOCAL = _Local()


def running() -> Core | None:
    """The core this thread plays, or None outside of a kernel."""
    return _LOCAL.core


def current() -> Core:
    """The core this thread plays.

    Raises:
        LanguageFault: Outside of a kernel.
    """
    core = _LOCAL.core
    if core is None:
        raise LanguageFault("used outside of a running kernel", place=kernel_place())
    return core


def enter(core: Core | None) -> None:
    """Make this thread play a core, or none."""
    _LOCAL.core = core
