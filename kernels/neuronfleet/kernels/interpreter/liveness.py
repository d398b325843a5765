"""How many bytes of SBUF and PSUM are live at once, from first write to last use.

A tensor of at most 32 partitions fills one quadrant of the 128, of at most 64 two, else all
four; the compiler puts small tensors beside each other. So what is counted are quadrants x
bytes, against four times the bytes of a partition: a lower bound, without the holes of a real
allocation, that never refuses what would fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from neuronfleet.kernels.interpreter.faults import CapacityFault, Place
from neuronfleet.kernels.interpreter.memory import MemoryRegion, Storage
from neuronfleet.kernels.interpreter.platforms import Platform
from neuronfleet.kernels.interpreter.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The instruction at which a memory is fullest."""

    region: MemoryRegion
    nbytes: int
    """Bytes a partition, on average over the quadrants."""
    limit: int
    index: int | None
    """Instruction of the peak; None where nothing was written."""
    place: Place | None
    tensors: tuple[str, ...]
    """The live tensors, largest first, with their bytes a partition."""


def peak(
    trace: Trace, storages: Sequence[Storage], region: MemoryRegion, platform: Platform
) -> Peak:
    """The fullest moment of one memory."""
    events: list[tuple[int, int, int]] = []
    kept = [s for s in storages if s.region is region and s.first_write is not None]
    for n, storage in enumerate(kept):
        assert storage.first_write is not None
        assert storage.last_use is not None
        events.append((storage.first_write, _area(storage), n))
        events.append((storage.last_use + 1, -_area(storage), n))
    best, best_at, total = 0, None, 0
    for index, change, _ in sorted(events):
        total += change
        if total > best:
            best, best_at = total, index
    live = [
        s
        for s in kept
        if best_at is not None
        and s.first_write is not None
        and s.last_use is not None
        and s.first_write <= best_at <= s.last_use
    ]
    live.sort(key=_area, reverse=True)
    limit = (
        platform.psum_partition_bytes if region is MemoryRegion.psum else platform.sbuf_usable_bytes
    )
    return Peak(
        region=region,
        nbytes=-(-best // 4),
        limit=limit,
        index=best_at,
        place=trace.instructions[best_at].place if best_at is not None else None,
        tensors=tuple(f"{s.name or s.shape} {s.row_bytes}" for s in live),
    )


def _area(storage: Storage) -> int:
    """Bytes x quadrants."""
    rows = storage.shape[0]
    return storage.row_bytes * (1 if rows <= 32 else 2 if rows <= 64 else 4)


def require_fits(one: Peak, platform: Platform) -> None:
    """Fault where the peak is above the limit.

    Raises:
        CapacityFault: With the line of the instruction and the largest live tensors.
    """
    if one.nbytes > one.limit:
        raise CapacityFault(
            f"{one.nbytes} bytes a partition of {one.region.value.upper()} are live: "
            + ", ".join(one.tensors[:5]),
            place=one.place,
            limit=f"{one.limit} bytes on {platform.name}",
        )
