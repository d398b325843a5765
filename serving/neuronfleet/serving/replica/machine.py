"""The step machine: what one replica does next, and when that ends. No clock, no randomness.

A replica has `slots` sequences running and a waiting queue. While a slot is free and a request
waits, the device prefills it, alone; otherwise it runs a decode step of all running sequences,
one token each. The caller moves time: the planner and simulator jump from end to end, the
emulator waits for each.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.replica.timing import TimingModel


class Work(StrEnum):
    """What the device ran."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One request on its way through a replica."""

    key: str
    prompt_tokens: int
    output_tokens: int
    """Tokens to produce; the machine stops there."""
    arrived_ms: float
    ready_ms: float
    """When the host has it tokenized, so that the device may take it."""
    produced: int = 0
    started_ms: float | None = None
    first_ms: float | None = None
    """When its first token was out."""
    ended_ms: float | None = None

    @property
    def length(self) -> int:
        """Tokens that it holds in its slot."""
        return self.prompt_tokens + self.produced


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Work that ended: one prefill, or `steps` decode steps of the same batch."""

    work: Work
    started_ms: float
    ended_ms: float
    steps: int
    emitted: tuple[Sequence, ...]
    """Sequences that got a token a step."""
    finished: tuple[Sequence, ...]


@dataclass(slots=True)
class _Running:
    """Work under way on the device."""

    work: Work
    started_ms: float
    ends_ms: float
    batch: tuple[Sequence, ...]
    steps: int = 1


class StepMachine:
    """Slots, waiting queue and device of one replica."""

    def __init__(self, timing: TimingModel, slots: int, *, warm: bool = False) -> None:
        self.timing = timing
        self.slots = slots
        self.waiting: deque[Sequence] = deque()
        self.running: dict[str, Sequence] = {}
        self._busy: _Running | None = None
        self._free_ms = 0.0
        self._first = not warm

    @property
    def held(self) -> int:
        """Sequences that the replica holds: running and waiting."""
        return len(self.running) + len(self.waiting)

    def submit(self, key: str, prompt_tokens: int, output_tokens: int, now_ms: float) -> Sequence:
        """Queue a request that arrived at `now_ms`.

        Raises:
            PromptTooLongError: no prefill bucket is longer than the prompt.
        """
        self.timing.prefill_cost(prompt_tokens)
        sequence = Sequence(
            key=key,
            prompt_tokens=prompt_tokens,
            output_tokens=max(1, output_tokens),
            arrived_ms=now_ms,
            ready_ms=now_ms + self.timing.host_ms,
        )
        self.waiting.append(sequence)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Forget a request whose client left; work under way still takes its time."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        self.running.pop(sequence.key, None)

    def next_ms(self, limit_ms: float | None = None) -> float | None:
        """When the work under way ends, None while there is none to do.

        Work starts here, at the earliest time it could. With `limit_ms`, the time of the next
        arrival, as many decode steps as begin before it are taken in one go while the batch and
        its bucket stay the same; without, one step at a time.
        """
        if self._busy is None:
            self._busy = self._start(limit_ms)
        return None if self._busy is None else self._busy.ends_ms

    def finish(self) -> Done:
        """End the work under way and hand out its tokens."""
        busy, self._busy = self._busy, None
        if busy is None:
            raise RuntimeError("finish() without work under way: call next_ms() first")
        self._free_ms = busy.ends_ms
        if busy.work is Work.PREFILL:
            self._first = False
        emitted = tuple(s for s in busy.batch if self.running.get(s.key) is s)
        for sequence in emitted:
            sequence.produced += busy.steps
            if sequence.first_ms is None:
                sequence.first_ms = busy.ends_ms
        finished = tuple(s for s in emitted if s.produced >= s.output_tokens)
        for sequence in finished:
            sequence.ended_ms = busy.ends_ms
            del self.running[sequence.key]
        return Done(
            work=busy.work,
            started_ms=busy.started_ms,
            ended_ms=busy.ends_ms,
            steps=busy.steps,
            emitted=emitted,
            finished=finished,
        )

    def _start(self, limit_ms: float | None) -> _Running | None:
        waits = self.waiting and len(self.running) < self.slots
        if waits and (self.waiting[0].ready_ms <= self._free_ms or not self.running):
            return self._start_prefill()
        if not self.running:
            return None
        return self._start_decode(limit_ms)

    def _start_prefill(self) -> _Running:
        sequence = self.waiting.popleft()
        self.running[sequence.key] = sequence
        sequence.started_ms = max(self._free_ms, sequence.ready_ms)
        cost = self.timing.prefill_cost(sequence.prompt_tokens)
        if self._first:
            cost += self.timing.first_ms
        return _Running(Work.PREFILL, sequence.started_ms, sequence.started_ms + cost, (sequence,))

    def _start_decode(self, limit_ms: float | None) -> _Running:
        batch = tuple(self.running.values())
        longest = max(s.length for s in batch)
        cost = self.timing.step_cost(longest, len(batch))
        steps = 1
        if limit_ms is not None:
            steps = self._steps_together(batch, longest, cost, limit_ms)
        return _Running(Work.DECODE, self._free_ms, self._free_ms + steps * cost, batch, steps)

    def _steps_together(
        self, batch: tuple[Sequence, ...], longest: int, cost: float, limit_ms: float
    ) -> int:
        """Steps until a sequence ends, the bucket changes or a request may come in."""
        steps = min(s.output_tokens - s.produced for s in batch)
        edge = self.timing.decode.edge(longest)
        if edge > longest:
            steps = min(steps, edge - longest)
        stop = limit_ms
        if self.waiting and len(self.running) < self.slots:
            stop = min(stop, self.waiting[0].ready_ms)
        # A step begun before `stop` runs to its end: 50 ms steps, 120 ms away -> 3 steps.
        return max(1, min(steps, int(min(steps, max(0.0, stop - self._free_ms) / cost)) + 1))
