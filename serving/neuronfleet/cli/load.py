"""The traffic of a local run: the simulator's arrivals, sent by bench's load client."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from neuronfleet.serving.api.fleet import Manifest
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.bench.prompts import PromptMaker
from neuronfleet.serving.bench.results import Result, Status
from neuronfleet.serving.bench.summary import Percentiles, summarize
from neuronfleet.serving.local.scenario import Load, LocalRun, Shape
from neuronfleet.serving.local.traffic import Assignment, Outcome, Report
from neuronfleet.serving.replica.replay import Arrival
from neuronfleet.serving.simulator import arrivals, traces
from neuronfleet.serving.simulator.arrivals import Burst, Diurnal, Pattern, Stages, Steady

_ENDLESS_S = 1e9
CLASS_HEADER = "x-neuronfleet-class"


class FleetClient:
    """One fleet's traffic: interactive requests, and batch ones where the load has a share."""

    def __init__(
        self,
        assignment: Assignment,
        source: Sequence[Arrival] | None,
        prompt_maker: PromptMaker | None = None,
    ) -> None:
        self._assignment = assignment
        self._prompt_maker = prompt_maker
        self._results: list[Result] = []
        share = assignment.load.batch_share
        classes = [("interactive", 0.0, 1 - share), ("batch", 1 - share, 1.0)]
        self._clients = [
            self._client(name, low, high, source) for name, low, high in classes if low < high
        ]

    async def run(self) -> None:
        """Send until the time is over."""
        # A group: where one fails the other is stopped too.
        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                group.create_task(self._send(client))

    async def _send(self, client: LoadClient) -> None:
        until, workers = self._assignment.until_s, self._assignment.fleet.traffic.concurrency
        if workers is not None and _closed(self._assignment):
            share = max(1, round(workers / len(self._clients)))
            await client.run_closed(share, until_s=until)
        else:
            await client.run(until)

    async def stop(self) -> None:
        """Abort what runs."""
        for client in self._clients:
            await client.stop()

    def now_s(self) -> float:
        """Fleet seconds since the start."""
        return self._clients[0].now_s()

    def outcomes(self) -> Sequence[Outcome]:
        """Every request that ended."""
        return self._results

    def attained(self, outcomes: Sequence[Outcome]) -> float | None:
        """Share within the objective."""
        judged = [one for one in outcomes if isinstance(one, Result)]
        objective = self._assignment.fleet.objective
        return sum(one.meets(objective) for one in judged) / len(judged) if judged else None

    def report(self) -> Report:
        """Both classes together."""
        summaries = [client.summary() for client in self._clients]
        whole = summarize(
            [result for client in self._clients for result in client.results],
            self._assignment.fleet.objective,
            window_s=self.now_s(),
        )
        void = {reason for summary in summaries for reason in summary.void}
        return Report(
            offered=whole.offered + whole.unfinished,
            completed=whole.ok,
            refused=whole.refused,
            failed=whole.rejected + whole.empty + whole.cut + whole.failed,
            unfinished=whole.unfinished,
            attainment=whole.attainment,
            ttft_ms=_milliseconds(whole.ttft),
            tpot_ms=_milliseconds(whole.tpot),
            output_tokens=whole.output_tokens + whole.unfinished_tokens,
            void=tuple(sorted(void)),
        )

    def _client(
        self, name: str, low: float, high: float, source: Sequence[Arrival] | None
    ) -> LoadClient:
        assignment = self._assignment
        coins = Random(f"class {assignment.run.seed}")
        every = iter(source) if source is not None else generated(assignment)
        mine = (one for one in every if low <= coins.random() < high)
        return LoadClient(
            assignment.endpoint,
            assignment.fleet.model.name,
            mine,
            objective=assignment.fleet.objective,
            time_scale=assignment.run.time_scale,
            headers={CLASS_HEADER: name, "Authorization": f"Bearer {assignment.key}"},
            on_result=self._note,
            seed=assignment.run.seed + len(name),
            prompt_maker=self._prompt_maker,
        )

    def _note(self, result: Result) -> None:
        if result.status is not Status.UNFINISHED:
            self._results.append(result)


def byte_prompts(seed: int) -> PromptMaker:
    """Prompts for the tiny model's byte-level tokenizer: a lone digit is a token, and no BOS."""
    rng = Random(seed)

    def make(tokens: int) -> str:
        return "".join(rng.choices("0123456789", k=tokens))

    return make


def _closed(assignment: Assignment) -> bool:
    """Whether the load is the fleet's own closed one, and no pattern or trace in its place."""
    load = assignment.load
    return load.rate is None and load.shape is Shape.POISSON


def generated(assignment: Assignment) -> Iterator[Arrival]:
    """Arrivals of a generated load."""
    traffic = assignment.fleet.traffic
    return arrivals.arrivals(
        pattern_of(assignment),
        traffic.input_tokens,
        traffic.output_tokens,
        seed=assignment.run.seed,
        seconds=assignment.until_s or _ENDLESS_S,
    )


def pattern_of(assignment: Assignment) -> Pattern:
    """The rate over time that a load declares; the fleet's own where it names none."""
    load, traffic = assignment.load, assignment.fleet.traffic
    if _closed(assignment) and traffic.concurrency is not None:
        # Only the lengths of these are used: a worker sends as its last request ends.
        return Steady(rate=float(traffic.concurrency))
    rate = load.rate or traffic.requests_per_second
    if load.shape is Shape.STAGES:
        return Stages(stages=load.stages)
    if rate is None:
        raise SpecError(
            f"traffic of {load.fleet}: requestsPerSecond = nothing, must be given for a fleet "
            "with closed traffic"
        )
    if load.shape is Shape.BURST:
        return Burst(
            base=rate, peak=load.peak or rate, every_s=load.every_s, lasting_s=load.lasting_s
        )
    if load.shape is Shape.DIURNAL:
        return Diurnal(mean=rate, swing=load.swing, period_s=load.period_s)
    return Steady(rate=rate)


def recorded(load: Load, manifest: Manifest, run: LocalRun, base: Path) -> traces.Trace | None:
    """The trace that a load plays back, read whole before the run; None for generated ones.

    Raises:
        SpecError: the file cannot be read, or is no known trace.
    """
    if load.trace is None:
        return None
    path = base / load.trace
    fleet = next(one for one in manifest.fleets if one.name == load.fleet)
    playback = traces.Playback(
        speed=load.speed,
        limit_s=None if run.duration_s is None else run.duration_s * load.speed,
        seed=run.seed,
        input_tokens=fleet.traffic.input_tokens,
        output_tokens=fleet.traffic.output_tokens,
    )
    try:
        with path.open(encoding="utf-8") as lines:
            trace = traces.read_trace(lines, str(path), playback)
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "not UTF-8 text"
        raise SpecError(f"file = {path}: {reason}, must be a readable trace") from wrong
    return trace


def fitting(trace: traces.Trace, longest: int) -> tuple[list[Arrival], int]:
    """Arrivals that a variant's max_model_len allows, and how many it does not."""
    fit = [one for one in trace.arrivals if one.prompt_tokens + one.output_tokens < longest]
    return fit, len(trace.arrivals) - len(fit)


def _milliseconds(values: Percentiles) -> dict[str, float | None]:
    """Fleet milliseconds; a percentile that no answer reached is unknown in JSON."""
    named = zip(("p50", "p90", "p99"), (values.p50, values.p90, values.p99), strict=True)
    return {
        name: None if value is None or math.isinf(value) else value * 1000 for name, value in named
    }
