"""Ways for a replica to fail, on command: each one seen on real Neuron servers."""

from collections.abc import Callable, Iterable
from enum import StrEnum


class Fault(StrEnum):
    """One failure mode."""

    DEAD_ENGINE = "dead-engine"
    """Health and completions answer 200, with no text: the runtime died under the server."""
    WRONG_TEXT = "wrong-text"
    """Everything works but the words: broken numerics."""
    CRASH = "crash"
    """At the next decode step the process exits, or its connections are reset."""
    SLOW_BOOT = "slow-boot"
    """Every boot phase takes `slow_boot_factor` times as long."""
    GRAPH_MISS = "graph-miss"
    """The graphs are not in the store and are compiled."""
    HANG = "hang"
    """Connections are accepted and never answered; running work stops."""


class Faults:
    """The failure modes that are on."""

    def __init__(self, on: Iterable[Fault] = ()) -> None:
        self._on = set(on)
        self._listeners: list[Callable[[Fault, bool], None]] = []

    def __contains__(self, fault: Fault) -> bool:
        return fault in self._on

    def listen(self, listener: Callable[[Fault, bool], None]) -> None:
        """Call `listener` at each change."""
        self._listeners.append(listener)

    def turn(self, fault: Fault, on: bool) -> None:
        """Turn one on or off; off heals."""
        if on == (fault in self._on):
            return
        (self._on.add if on else self._on.discard)(fault)
        for listener in self._listeners:
            listener(fault, on)

    def names(self) -> list[str]:
        """Those that are on, sorted."""
        return sorted(self._on)
