"""Drive step machines through a load in virtual time, and judge what came out."""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from neuronfleet.serving.replica.machine import Sequence as Slot
from neuronfleet.serving.replica.machine import StepMachine
from neuronfleet.serving.replica.timing import TimingModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request as its client saw it, in milliseconds of virtual time."""

    arrived_ms: float
    first_ms: float
    ended_ms: float
    output_tokens: int

    @property
    def ttft_ms(self) -> float:
        """Time to first token, from arrival."""
        return self.first_ms - self.arrived_ms

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; None for a single token."""
        if self.output_tokens < 2:
            return None
        return (self.ended_ms - self.first_ms) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request of an open load."""

    at_ms: float
    prompt_tokens: int
    output_tokens: int


def quantile(values: Iterable[float], share: float) -> float | None:
    """Linearly interpolated quantile, as NumPy's default; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def closed_loop(
    timing: TimingModel,
    *,
    slots: int,
    workers: int,
    requests: int,
    prompt_tokens: int,
    output_tokens: int,
    first_after_boot: bool,
) -> list[Served]:
    """Serve `requests` by `workers` that each send the next as the last one ends."""
    machine = StepMachine(timing, slots, warm=not first_after_boot)
    served: list[Served] = []
    sent = min(workers, requests)
    for number in range(sent):
        machine.submit(str(number), prompt_tokens, output_tokens, 0.0)
    while machine.next_ms(float("inf")) is not None:
        for ended in machine.finish().finished:
            served.append(_served(ended))
            if sent < requests:
                machine.submit(str(sent), prompt_tokens, output_tokens, _end(ended))
                sent += 1
    return served


def open_loop(
    timing: TimingModel, *, slots: int, arrivals: Sequence[Arrival], replicas: int = 1
) -> list[Served]:
    """Serve timed arrivals by `replicas` behind one queue, each held to its ceiling.

    As the gateway does: a request goes to the replica with most free slots, and waits in the
    one queue where none has any.
    """
    machines = [StepMachine(timing, slots, warm=True) for _ in range(replicas)]
    queue: deque[tuple[int, Arrival]] = deque()
    pending = deque(enumerate(arrivals))
    arrived: dict[str, float] = {}
    served: list[Served] = []
    while pending or queue or any(machine.held for machine in machines):
        limit = pending[0][1].at_ms if pending else float("inf")
        ends, at = _next_end(machines, limit)
        if pending and limit <= ends:
            queue.append(pending.popleft())
            now = limit
        else:
            now = ends
            for ended in machines[at].finish().finished:
                served.append(_served(ended, arrived.pop(ended.key)))
        while queue and (target := min(machines, key=lambda m: m.held)).held < slots:
            number, arrival = queue.popleft()
            arrived[str(number)] = arrival.at_ms
            target.submit(str(number), arrival.prompt_tokens, arrival.output_tokens, now)
    return served


def _next_end(machines: list[StepMachine], limit_ms: float) -> tuple[float, int]:
    """Earliest end of work among the machines and whose it is."""
    ends = [
        (end if (end := machine.next_ms(limit_ms)) is not None else float("inf"), index)
        for index, machine in enumerate(machines)
    ]
    return heapq.nsmallest(1, ends)[0]


def pooled(
    timing: TimingModel,
    *,
    slots: int,
    workers: int,
    arrivals: Sequence[Arrival],
    first_after_boot: bool,
) -> list[Served]:
    """Serve timed arrivals sent by a pool of `workers`, straight at one replica.

    A request whose time has come waits in the client until a worker is free, and its latency
    counts from then: the coordinated omission of a bounded client, replayed as it was.
    """
    machine = StepMachine(timing, slots, warm=not first_after_boot)
    pending = deque(enumerate(arrivals))
    served: list[Served] = []
    while pending or machine.held:
        limit = pending[0][1].at_ms if pending and machine.held < workers else float("inf")
        ends = machine.next_ms(limit)
        now = limit
        if ends is not None and ends < limit:
            now = ends
            served.extend(_served(ended) for ended in machine.finish().finished)
        while pending and pending[0][1].at_ms <= now and machine.held < workers:
            number, arrival = pending.popleft()
            machine.submit(str(number), arrival.prompt_tokens, arrival.output_tokens, now)
    return served


def poisson(
    seed: int, *, rate: float, seconds: float, prompt_tokens: int, output_tokens: int
) -> list[Arrival]:
    """Arrivals of a Poisson stream of `rate` requests a second.

    Drawn as the study's client drew them, so that its seed gives its very arrivals: seed 42 over
    120 s has 121 requests at 1 req/s and 455 at 4, as it reports.
    """
    rng = Random(seed)
    arrivals: list[Arrival] = []
    at = rng.expovariate(rate)
    while at < seconds:
        arrivals.append(
            Arrival(at_ms=at * 1000, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
        )
        at += rng.expovariate(rate)
    return arrivals


def attainment(served: Sequence[Served], *, ttft_ms: float, tpot_ms: float) -> float | None:
    """Share of requests that met both objectives; None where nothing was served."""
    if not served:
        return None
    good = sum(
        one.ttft_ms <= ttft_ms and (one.tpot_ms is None or one.tpot_ms <= tpot_ms) for one in served
    )
    return good / len(served)


def _end(sequence: Slot) -> float:
    if sequence.ended_ms is None:
        raise RuntimeError(f"{sequence.key} has not ended")
    return sequence.ended_ms


def _served(sequence: Slot, arrived_ms: float | None = None) -> Served:
    if sequence.first_ms is None:
        raise RuntimeError(f"{sequence.key} ended without a first token")
    return Served(
        arrived_ms=sequence.arrived_ms if arrived_ms is None else arrived_ms,
        first_ms=sequence.first_ms,
        ended_ms=_end(sequence),
        output_tokens=sequence.produced,
    )
