"""A timeline as tables, in the form the command line prints elsewhere."""

from collections.abc import Sequence

from rich.table import Table

from neuronfleet.kernels.cost.timeline import Timeline
from neuronfleet.kernels.interpreter.memory import MemoryRegion

BASIS = "simulated"
"""Stands beside every figure: no device was asked."""


def summary(named: Sequence[tuple[str, Timeline]]) -> Table:
    """A row a kernel: time, roofline and its share, time with slow collectives, memory peaks."""
    table = _table(
        "kernel", f"us ({BASIS})", "roofline us", "share", _slow(named), "bound by", "SBUF KiB",
        "PSUM KiB",
    )  # fmt: skip
    for name, one in named:
        share = one.roofline_share
        spent = one.critical_us()
        table.add_row(
            name,
            f"{one.makespan_us:,.2f}",
            f"{one.roofline_us:,.2f}",
            f"{share:.0%}" if share is not None else "unknown",
            f"{one.slow_us:,.2f}",
            next(iter(spent), "nothing"),
            _peak(one, MemoryRegion.sbuf),
            _peak(one, MemoryRegion.psum),
        )
    return table


def engines(one: Timeline) -> Table:
    """A row an engine of each core: when it is busy, and its part of the critical path."""
    table = _table("core", "engine", f"busy us ({BASIS})", "of all", "instructions")
    for core, trace in enumerate(one.traces):
        counts: dict[str, int] = {}
        for event in one.events.values():
            if event.node[0] == core:
                queue = event.queue.split(" ")[0]
                counts[queue] = counts.get(queue, 0) + 1
        for engine, busy in one.busy_us(core).items():
            share = busy / one.makespan_us if one.makespan_us else 0.0
            name = f"{trace.rank}.{trace.core}"
            table.add_row(name, engine, f"{busy:,.2f}", f"{share:.0%}", f"{counts[engine]:,}")
    return table


def critical(one: Timeline) -> Table:
    """What the makespan is spent on, largest first."""
    table = _table("critical path", f"us ({BASIS})", "of all")
    for what, spent in one.critical_us().items():
        table.add_row(what, f"{spent:,.2f}", f"{spent / one.makespan_us:.0%}")
    return table


def _slow(named: Sequence[tuple[str, Timeline]]) -> str:
    figures = sorted({one.constants.collective_slow_us for _, one in named})
    return f"us at {'/'.join(f'{f:g}' for f in figures) or '?'} us a collective ({BASIS})"


def _peak(one: Timeline, region: MemoryRegion) -> str:
    found = one.peak(region)
    if found is None:
        return "unknown"
    return f"{found.nbytes / 1024:.1f} of {found.limit / 1024:.1f}"


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        words = name in ("kernel", "core", "engine", "critical path", "bound by")
        table.add_column(name, justify="left" if words else "right")
    return table
