"""Messages between cores, with deadlock found at once and not by a timeout."""

import threading
from collections import deque
from dataclasses import dataclass, field

from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import DeadlockFault, Place


@dataclass(frozen=True, slots=True)
class _Wait:
    """What a core waits for, and the line where it does."""

    sender: int
    channel: str
    place: Place | None


@dataclass(slots=True)
class Network:
    """Mailboxes between `seats` cores: sends never block, receives do.

    A program is deadlocked when every core has finished, failed or waits for a message that is
    not there; each waiting core then gets a fault that names every waiting line.
    """

    seats: int
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _boxes: dict[tuple[int, int, str], deque[Array | None]] = field(default_factory=dict)
    _waits: dict[int, _Wait] = field(default_factory=dict)
    _left: set[int] = field(default_factory=set)

    def send(self, sender: int, receiver: int, channel: str, payload: Array | None) -> None:
        """Put a message into the receiver's box."""
        with self._changed:
            self._boxes.setdefault((sender, receiver, channel), deque()).append(payload)
            self._changed.notify_all()

    def receive(
        self, receiver: int, sender: int, channel: str, place: Place | None
    ) -> Array | None:
        """The next message of a channel.

        Raises:
            DeadlockFault: Where no core is left that could send it.
        """
        key = (sender, receiver, channel)
        with self._changed:
            self._waits[receiver] = _Wait(sender, channel, place)
            self._changed.notify_all()
            while not self._boxes.get(key):
                if self._stuck():
                    # The wait is kept, so that the other side's fault can name this line.
                    raise DeadlockFault(self._story(), place=place, instruction=channel)
                self._changed.wait()
            del self._waits[receiver]
            return self._boxes[key].popleft()

    def leave(self, seat: int) -> None:
        """Say that a core sends no more."""
        with self._changed:
            self._left.add(seat)
            self._changed.notify_all()

    def _stuck(self) -> bool:
        return all(seat in self._left or self._starves(seat) for seat in range(self.seats))

    def _starves(self, seat: int) -> bool:
        wait = self._waits.get(seat)
        return wait is not None and not self._boxes.get((wait.sender, seat, wait.channel))

    def _story(self) -> str:
        """One clause a core: where it waits and for whom, or that it has ended."""
        parts = []
        for seat in range(self.seats):
            wait = self._waits.get(seat)
            if wait is None:
                parts.append(f"core {seat} has ended")
                continue
            where = f"{wait.place[0]}:{wait.place[1]}" if wait.place else "an unknown line"
            parts.append(f"core {seat} waits at {where} for core {wait.sender} ({wait.channel})")
        return "; ".join(parts)
