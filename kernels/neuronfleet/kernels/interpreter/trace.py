"""What ran: one record an instruction, with what it reads, writes and must wait for.

A record has all that a timing model needs and nothing of the numbers. Positions are of one
core's program order; messages between cores carry a key that both ends share.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from neuronfleet.kernels.interpreter.dtypes import DType
from neuronfleet.kernels.interpreter.faults import Place
from neuronfleet.kernels.interpreter.memory import MemoryRegion


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor of one instruction."""

    role: str
    """Parameter name."""
    tensor: str
    """The tensor's name; empty where the kernel gave none."""
    storage: int
    """Serial of its allocation: equal serials may share bytes."""
    region: MemoryRegion
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements."""
    partitions: tuple[int, int]
    """First partition and one past the last; (0, 1) in HBM."""
    extent: tuple[int, int]
    """First byte and one past the last: in a partition on chip, in the tensor in HBM."""
    nbytes: int
    """Bytes that the engine moves."""
    indirect: bool
    """Whether its address is data; its extent is then the whole tensor."""

    def overlaps(self, other: "Operand") -> bool:
        """Whether both may touch one byte (bounding boxes)."""
        return (
            self.storage == other.storage
            and self.extent[0] < other.extent[1]
            and other.extent[0] < self.extent[1]
            and self.partitions[0] < other.partitions[1]
            and other.partitions[0] < self.partitions[1]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction."""

    index: int
    """Position in its core's program."""
    engine: str
    """Queue that runs it: tensor, vector, scalar, gpsimd, dma or sync."""
    opcode: str
    name: str
    place: Place | None
    writes: tuple[Operand, ...]
    reads: tuple[Operand, ...]
    details: tuple[tuple[str, str | int], ...] = ()
    """What else costs time: operators, performance mode, descriptor mode, message key."""


@dataclass(slots=True)
class Trace:
    """One core's program as it ran."""

    rank: int
    core: int
    instructions: list[Instruction] = field(default_factory=list)

    def opcodes(self) -> dict[str, int]:
        """How often each instruction ran."""
        counts: dict[str, int] = {}
        for one in self.instructions:
            counts[one.opcode] = counts.get(one.opcode, 0) + 1
        return counts

    def dependencies(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """For each instruction those it must wait for: read after write, write after either.

        A write that covers earlier accesses replaces them, so waits are on the newest only.
        """
        live: dict[int, list[tuple[Operand, int, bool]]] = {}
        for one in self.instructions:
            waits: set[int] = set()
            for operand in one.reads:
                history = live.get(operand.storage, [])
                waits.update(i for o, i, wrote in history if wrote and o.overlaps(operand))
            for operand in one.writes:
                history = live.get(operand.storage, [])
                waits.update(i for o, i, _ in history if o.overlaps(operand))
                live[operand.storage] = [h for h in history if not _covers(operand, h[0])]
            for operand in one.reads:
                live.setdefault(operand.storage, []).append((operand, one.index, False))
            for operand in one.writes:
                live.setdefault(operand.storage, []).append((operand, one.index, True))
            waits.discard(one.index)
            yield one.index, tuple(sorted(waits))


def _covers(new: Operand, old: Operand) -> bool:
    """Whether a write leaves nothing of an earlier access; strided writes are not taken to."""
    dense = new.nbytes == (new.extent[1] - new.extent[0]) * (new.partitions[1] - new.partitions[0])
    return (
        dense
        and not new.indirect
        and new.extent[0] <= old.extent[0]
        and old.extent[1] <= new.extent[1]
        and new.partitions[0] <= old.partitions[0]
        and old.partitions[1] <= new.partitions[1]
    )
