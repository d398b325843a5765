"""A timeline as trace events, which Perfetto (ui.perfetto.dev) and Chrome's tracing draw.

Format: the Trace Event Format's JSON object form; complete events (`ph` X), microseconds.
"""

from typing import Any

from neuronfleet.kernels.cost.timeline import Timeline
from neuronfleet.kernels.interpreter.trace import Instruction

_ORDER = ("tensor", "vector", "scalar", "gpsimd", "sync", "collective", "dma")


def document(one: Timeline) -> dict[str, Any]:
    """A JSON document: a process a core, a thread a queue, an event an instruction."""
    threads = {(e.node[0], e.queue) for e in one.events.values()}
    ids = {
        thread: number
        for core in range(len(one.traces))
        for number, thread in enumerate(sorted((t for t in threads if t[0] == core), key=_rank))
    }
    events: list[dict[str, Any]] = []
    for core, trace in enumerate(one.traces):
        label = f"rank {trace.rank} core {trace.core} (simulated)"
        events.append(_label("process_name", core, 0, label))
    for (core, queue), number in ids.items():
        events.append(_label("thread_name", core, number, queue))
    critical = {span.node for span in one.critical_path()}
    for node, event in sorted(one.events.items()):
        instruction = one.traces[node[0]].instructions[node[1]]
        events.append(
            {
                "ph": "X",
                "name": instruction.name or instruction.opcode,
                "cat": instruction.engine,
                "pid": node[0],
                "tid": ids[node[0], event.queue],
                "ts": event.start,
                "dur": event.end - event.start,
                "args": {
                    **_arguments(instruction),
                    "bound by": event.cause.value,
                    "critical": node in critical,
                },
            }
        )
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"basis": "simulated", "platform": one.constants.platform.name},
    }


def _rank(thread: tuple[int, str]) -> tuple[int, int]:
    name, _, number = thread[1].partition(" ")
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), int(number or 0))


def _label(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _arguments(one: Instruction) -> dict[str, str | int]:
    found: dict[str, str | int] = {"index": one.index, "opcode": one.opcode, **dict(one.details)}
    if one.place is not None:
        # The file's name alone: a document that is handed on names no directory of this machine.
        found["line"] = f"{one.place[0].rsplit('/', 1)[-1]}:{one.place[1]}"
    for operand in (*one.writes, *one.reads):
        shape = "x".join(str(n) for n in operand.shape)
        found[operand.role] = f"{operand.tensor} {operand.dtype} {shape} {operand.region.value}"
    return found
