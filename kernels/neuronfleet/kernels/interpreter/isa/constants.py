"""Engines, modes and commands of the instructions."""

from enum import Enum

from neuronfleet.kernels.interpreter.platforms import nc_version

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]


class engine(Enum):
    """Queues."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class reduce_cmd(Enum):
    """What happens to the reduction registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who makes DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """What an index out of bounds does."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Modes of the PE."""

    none = "none"
    double_row = "double_row"


class dma_engine(Enum):
    """Who moves a core-to-core message."""

    dma = 1
    gpsimd_dma = 2


def name_of(kind: type[Enum], given: object) -> str:
    """A member's name, for the member or its number; kernels give both."""
    return kind(given).name
