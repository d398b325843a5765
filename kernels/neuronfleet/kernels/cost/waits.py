"""What each instruction of a core waits for, from what it reads and writes.

The kinds matter: a value that is waited for costs a semaphore even on one's own engine, while an
engine that overwrites what it wrote or read itself only keeps its order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.trace import Instruction, Operand


@dataclass(slots=True)
class _History:
    """Who touched one allocation."""

    reads: list[tuple[Operand, int]] = field(default_factory=list)
    writes: list[tuple[Operand, int]] = field(default_factory=list)


def waits(program: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """For each position those it waits for by semaphore, ascending.

    Read after write always; write after read or write where the engines differ or either is a
    transfer. A register's value comes from its newest load. A barrier stands between the core's
    accesses before and after it of shared memory that any core may write; inputs that this core
    only reads are not held up.
    """
    live: dict[int, _History] = {}
    found = []
    register = barrier = None
    shared: list[int] = []
    written = {o.storage for one in program for o in one.writes}
    for at, one in enumerate(program):
        need = _values(one, live) | {n for n in _order(one, live) if _apart(program[n], one)}
        if register is not None and _by_register(one):
            need.add(register)
        if one.opcode == "core_barrier":
            need.update(shared)
            barrier, shared = at, []
        elif _touches_shared(one, written):
            if barrier is not None:
                need.add(barrier)
            shared.append(at)
        if one.opcode == "register_load":
            register = at
        _remember(one, at, live)
        found.append(tuple(sorted(need)))
    return found


def _values(one: Instruction, live: dict[int, _History]) -> set[int]:
    """Writers of what it reads."""
    return {
        n
        for operand in one.reads
        for other, n in _of(operand, live).writes
        if touch(operand, other)
    }


def _order(one: Instruction, live: dict[int, _History]) -> set[int]:
    """Readers and writers of what it overwrites."""
    return {
        n
        for operand in one.writes
        for other, n in (*_of(operand, live).reads, *_of(operand, live).writes)
        if touch(operand, other)
    }


def touch(one: Operand, other: Operand) -> bool:
    """Whether two operands may share a byte: their boxes meet, and not as columns of one matrix.

    Tiles of different columns have boxes that overlap and rows of the same stride; within a row
    they are disjoint intervals.
    """
    if not one.overlaps(other):
        return False
    columns, others = _columns(one), _columns(other)
    if columns is None or others is None or columns[0] != others[0]:
        return True
    return columns[1] < others[2] and others[1] < columns[2]


def _columns(operand: Operand) -> tuple[int, int, int] | None:
    """(bytes from row to row, first byte in a row, one past the last); None where rows are none."""
    first = 1 if operand.region.on_chip else 0
    axes = sorted(
        (stride, count)
        for count, stride in zip(operand.shape[first:], operand.strides[first:], strict=True)
        if count > 1
    )
    if operand.indirect or not axes or axes[0][0] <= 0:
        return None
    size = operand.dtype.itemsize
    pitch = axes[-1][0] * size
    width = size * (1 + sum((count - 1) * stride for stride, count in axes[:-1]))
    start = operand.extent[0] % pitch
    return (pitch, start, start + width) if start + width <= pitch else None


def _apart(first: Instruction, then: Instruction) -> bool:
    return first.engine != then.engine or first.engine == "dma"


def _by_register(one: Instruction) -> bool:
    """Whether an address is data that no read of a tensor explains."""
    indirect = any(o.indirect for o in (*one.reads, *one.writes))
    return indirect and not any(o.role.endswith("offset") for o in one.reads)


def _touches_shared(one: Instruction, written: set[int]) -> bool:
    """Whether it uses shared memory that changes; inputs have serials below 0."""
    return any(
        o.region is MemoryRegion.shared_hbm and (o.storage >= 0 or o.storage in written)
        for o in (*one.reads, *one.writes)
    )


def _remember(one: Instruction, at: int, live: dict[int, _History]) -> None:
    for operand in one.writes:
        history = _of(operand, live)
        if _dense(operand):
            history.reads = [h for h in history.reads if not _covers(operand, h[0])]
            history.writes = [h for h in history.writes if not _covers(operand, h[0])]
    for operand in one.reads:
        _of(operand, live).reads.append((operand, at))
    for operand in one.writes:
        _of(operand, live).writes.append((operand, at))


def _of(operand: Operand, live: dict[int, _History]) -> _History:
    return live.setdefault(operand.storage, _History())


def _dense(operand: Operand) -> bool:
    """Whether it writes every byte of its box, so that who waits on it waits on those before."""
    area = (operand.extent[1] - operand.extent[0]) * (operand.partitions[1] - operand.partitions[0])
    return operand.nbytes == area and not operand.indirect


def _covers(new: Operand, old: Operand) -> bool:
    return (
        new.extent[0] <= old.extent[0]
        and old.extent[1] <= new.extent[1]
        and new.partitions[0] <= old.partitions[0]
        and old.partitions[1] <= new.partitions[1]
    )
