"""The engine: the step machine, driven by the clock; hands each step's tokens out."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from neuronfleet.serving.emulator.clock import ScaledClock
from neuronfleet.serving.replica.machine import Done, Sequence, StepMachine
from neuronfleet.serving.replica.timing import TimingModel

_TIMER_SECONDS = 0.0005
"""uvloop rounds timers to whole milliseconds: half of one more, and none fires early."""
_TURN_SECONDS = 0.01
"""Longest turn before the loop gets to its sockets, however far behind the engine is."""


class Taker(Protocol):
    """Who gets a sequence's tokens."""

    def take(self, produced: int) -> None:
        """The sequence has `produced` tokens now."""


class Observer(Protocol):
    """Who counts what the engine does."""

    def work(self, done: Done, late_ms: float) -> None:
        """Work ended, `late_ms` emulated milliseconds after its due time."""


class Engine:
    """Slots, queue and device of one replica, in scaled time."""

    def __init__(
        self, timing: TimingModel, slots: int, clock: ScaledClock, observer: Observer
    ) -> None:
        self.machine = StepMachine(timing, slots)
        self.max_held = 0
        self.on_decode: Callable[[], bool] | None = None
        """Called after a decode step; True ends the engine."""
        self._clock = clock
        self._observer = observer
        self._takers: dict[str, Taker] = {}
        self._timer: asyncio.Handle | None = None
        self._numbers = 0
        self._halted = False

    def submit(self, prompt_tokens: int, output_tokens: int, taker: Taker) -> Sequence:
        """Queue a sequence that arrives now."""
        self._run_due()
        self._numbers += 1
        key = str(self._numbers)
        sequence = self.machine.submit(key, prompt_tokens, output_tokens, self._clock.now_ms())
        self._takers[key] = taker
        self.max_held = max(self.max_held, self.machine.held)
        self._run_due()
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Free the slot of a sequence whose client left."""
        if self._takers.pop(sequence.key, None) is not None:
            self.machine.cancel(sequence)

    def halt(self) -> None:
        """Stop: no work ends until `resume`."""
        self._halted = True
        self._clock.pause()
        self._disarm()

    def resume(self) -> None:
        """Go on from where it stopped."""
        self._halted = False
        self._clock.resume()
        self._run_due()

    def stop(self) -> None:
        """Stop for good."""
        self._halted = True
        self._disarm()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run_due(self) -> None:
        """End all work that is due, then wait for the next end."""
        self._disarm()
        if self._halted:
            return
        machine, clock = self.machine, self._clock
        turn_ends = time.monotonic() + _TURN_SECONDS
        loop = asyncio.get_running_loop()
        while (end := machine.next_ms()) is not None:
            late_ms = clock.now_ms() - end
            if late_ms < 0:
                delay = clock.delay(end) + _TIMER_SECONDS
                self._timer = loop.call_later(delay, self._run_due)
                return
            done = machine.finish()
            self._observer.work(done, late_ms)
            if not self._hand_out(done):
                return
            if time.monotonic() > turn_ends:
                self._timer = loop.call_soon(self._run_due)
                return

    def _hand_out(self, done: Done) -> bool:
        takers = self._takers
        for sequence in done.emitted:
            takers[sequence.key].take(sequence.produced)
        for sequence in done.finished:
            del takers[sequence.key]
        if done.emitted and self.on_decode is not None and done.work == "decode":
            return not self.on_decode()
        return True
