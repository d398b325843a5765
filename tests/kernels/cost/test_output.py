"""Tables and the document for Perfetto say the figures, and that they are simulated."""

import io
import json
from collections import Counter

import pytest
from rich.console import Console
from rich.table import Table

from neuronfleet.kernels.cost import perfetto, table
from neuronfleet.kernels.cost.timeline import Timeline, timeline
from neuronfleet.kernels.interpreter.liveness import Peak
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from tests.kernels.cost.programs import TRN2, Program


@pytest.fixture
def line() -> Timeline:
    program = Program()
    program.load(1, 1024)
    program.load(4, 1024)
    program.activation(2, 1, 1024)
    program.store(2, 1024)
    peak = Peak(
        region=MemoryRegion.sbuf, nbytes=12_288, limit=212_464, index=2, place=None, tensors=()
    )
    return timeline([program.trace], TRN2, [peak])


def printed(one: Table) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(one)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_summary_prints_time_share_and_peaks_and_says_simulated(line: Timeline) -> None:
    text = printed(table.summary([("silu", line)]))

    assert "us (simulated)" in text
    assert "us at 15 us a collective (simulated)" in text
    assert f"{line.makespan_us:.2f}" in text
    assert f"{line.roofline_share:.0%}" in text
    assert "12.0 of 207.5" in text
    assert "unknown" in text  # PSUM's peak was not given


def test_the_engines_table_counts_every_instruction(line: Timeline) -> None:
    rows = [r.split() for r in printed(table.engines(line)).splitlines()[1:]]

    assert {r[1]: r[-1] for r in rows} == {"dma": "3", "scalar": "1"}


def test_the_critical_table_adds_up_to_the_makespan(line: Timeline) -> None:
    rows = [r.split() for r in printed(table.critical(line)).splitlines()[1:]]

    assert sum(float(r[-2]) for r in rows) == pytest.approx(line.makespan_us, abs=0.02)


def test_the_document_has_an_event_an_instruction_on_a_named_thread(line: Timeline) -> None:
    document = json.loads(json.dumps(perfetto.document(line)))
    events = [e for e in document["traceEvents"] if e["ph"] == "X"]
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in document["traceEvents"]
        if e["name"] == "thread_name"
    }

    assert Counter(threads[e["pid"], e["tid"]].split()[0] for e in events) == {
        "dma": 3, "scalar": 1,
    }  # fmt: skip
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(line.makespan_us)
    assert document["otherData"]["basis"] == "simulated"
    assert "/k/" not in json.dumps(document)
