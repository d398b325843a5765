"""KDA's timed candidates against the cost model: pairs in order, and absolute error.

`python -m tests.kernels.external.kda.judge CHECKOUT [operator ...]`; every figure of the model is
simulated. One factor on the engines' clocks is fitted to the calibrating operators and judged on
the others; it is used nowhere else. KDA's fastest products in bfloat16 pass at 145 TFLOP/s and its
copies at 800 GB/s, twice what one trn2 core has; why is not known. How the model orders HBM tiles
was mended after operators of the judging half were seen, so a fresh verdict takes others.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from neuronfleet.kernels.cost import issue
from neuronfleet.kernels.cost.constants import CONSTANTS, Constants
from neuronfleet.kernels.cost.model import simulate, takes_memory
from neuronfleet.kernels.interpreter.platforms import Clocks
from neuronfleet.kernels.interpreter.trace import Trace
from tests.kernels.external.kda.compiler_order import compiled
from tests.kernels.external.kda.older_language import trace_of

SPLIT = json.loads((Path(__file__).parent / "split.json").read_text())
APART = 1.10
"""Pairs that differ by less are noise."""


FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0)
"""Clocks tried, over the documented ones."""
WINDOW = 256
"""Instructions that the compiler is taken to look ahead."""
LARGEST = 60_000
"""Instructions of a candidate that are still simulated, for the sake of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One candidate. Microseconds."""

    op: str
    name: str
    measured: float
    simulated: dict[float, float]
    """By factor on the clocks; 1 is the fixed model."""
    plain: float
    """The rival: memory time plus PE passes."""


def faster(factor: float) -> Constants:
    """The fixed constants with other clocks."""
    fixed = CONSTANTS["trn2"]
    c = fixed.platform.clocks
    clocks = Clocks(
        tensor=c.tensor * factor, vector=c.vector * factor, scalar=c.scalar * factor,
        gpsimd=c.gpsimd * factor,
    )  # fmt: skip
    return replace(fixed, platform=replace(fixed.platform, clocks=clocks))


def candidates(checkout: Path, op: str) -> dict[Path, float]:
    """Files with a measured latency, in microseconds; the median of several."""
    found: dict[Path, list[float]] = {}
    home = checkout / "workspaces" / op
    for line in (home / "candidates.jsonl").read_text().splitlines():
        one = json.loads(line) if line.strip() else {}
        file = home / str(one.get("candidate"))
        if one.get("latency_ms") and file.is_file():
            found.setdefault(file, []).append(1e3 * float(one["latency_ms"]))
    return {file: statistics.median(values) for file, values in sorted(found.items())}


def timed(checkout: Path, op: str) -> list[Timed]:
    """All of an operator's candidates that the adapter runs; what it cannot run is named."""
    rows = []
    inputs = [tuple(i) if isinstance(i, list) else i for i in SPLIT["inputs"][op]]
    for file, measured in candidates(checkout, op).items():
        try:
            trace = trace_of(file, inputs)
        except Exception as problem:
            print(f"not run: {op} {file.name}: {type(problem).__name__}: {problem}", flush=True)
            continue
        if len(trace.instructions) > LARGEST:
            print(f"too large: {op} {file.name}: {len(trace.instructions)}", flush=True)
            continue
        spent = {f: makespan(trace, faster(f)) for f in FACTORS}
        rows.append(
            Timed(op=op, name=file.stem, measured=measured, simulated=spent, plain=plain(trace))
        )
    return rows


def makespan(trace: Trace, constants: Constants) -> float:
    """Microseconds of the order that the compiler is taken to choose."""
    events = simulate([compiled(trace, constants, WINDOW)], constants)
    return max(event.end for event in events.values())


def plain(trace: Trace) -> float:
    """Bytes over bandwidth, plus PE passes."""
    fixed = CONSTANTS["trn2"]
    nbytes = sum(sum(issue.hbm_bytes(o)) for o in trace.instructions if takes_memory(o))
    passes = sum(issue.issue_us(o, fixed) for o in trace.instructions if o.engine == "tensor")
    return nbytes / fixed.rank_gb_per_s / 1e3 + passes


def concordance(measured: Sequence[float], model: Sequence[float]) -> tuple[float, int]:
    """(Pairs that both order alike, a tie of the model counting half; pairs)."""
    right, pairs = 0.0, 0
    for a, b in combinations(range(len(measured)), 2):
        if max(measured[a], measured[b]) < APART * min(measured[a], measured[b]):
            continue
        pairs += 1
        sign = (measured[a] - measured[b]) * (model[a] - model[b])
        right += 1.0 if sign > 0 else 0.5 if sign == 0 else 0.0
    return right, pairs


def report(half: str, rows: Sequence[Timed], factor: float) -> None:
    """Print a half's concordance, the rival's, and the median absolute error."""
    ours = theirs = pairs = 0.0
    for op in SPLIT[half]:
        own = [r for r in rows if r.op == op]
        measured = [r.measured for r in own]
        right, count = concordance(measured, [r.simulated[factor] for r in own])
        rival, _ = concordance(measured, [r.plain for r in own])
        if own:
            print(f"  {op}: {right:g} of {count} pairs, bytes and passes {rival:g}")
        ours, theirs, pairs = ours + right, theirs + rival, pairs + count
    if pairs:
        print(
            f"{half} at clocks x {factor:g} (simulated): concordance {ours / pairs:.3f} over "
            f"{pairs:g} pairs, bytes and passes {theirs / pairs:.3f}, "
            f"median error {error(rows, factor):.0%}"
        )


def error(rows: Sequence[Timed], factor: float) -> float:
    """Median of |simulated / measured - 1|."""
    return statistics.median(abs(r.simulated[factor] / r.measured - 1) for r in rows)


def main(arguments: Sequence[str]) -> None:
    """Fit on one half, judge on the other."""
    checkout, chosen = Path(arguments[0]), set(arguments[1:])
    found: dict[str, list[Timed]] = {"calibrate": [], "judge": []}
    for half, rows in found.items():
        for op in SPLIT[half]:
            if chosen and op not in chosen:
                continue
            own = timed(checkout, op)
            rows += own
            for row in own:
                figures = " ".join(f"x{f:g} {us:.0f}" for f, us in row.simulated.items())
                name = f"{op} {row.name}"
                print(f"{name} measured {row.measured:.0f} simulated {figures}", flush=True)
    fitted = min(FACTORS, key=lambda f: error(found["calibrate"], f)) if found["calibrate"] else 1.0
    for half, rows in found.items():
        if rows:
            report(half, rows, 1.0)
            report(half, rows, fitted)


if __name__ == "__main__":
    main(sys.argv[1:])
