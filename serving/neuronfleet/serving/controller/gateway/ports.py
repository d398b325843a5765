"""Ports for queues: free ones, and none again soon."""

import random
import socket


class Ports:
    """Walks round a range from a random beginning.

    The other pod's router may still ask at a port that a queue has just left. A new queue there
    would be asked before it has a replica, and refuse.
    """

    def __init__(self, host: str, first: int, last: int, rng: random.Random) -> None:
        self._host, self._first, self._count = host, first, last - first + 1
        self._next = rng.randrange(self._count)

    def take(self) -> int | None:
        """A port on which nobody listens; None when all are taken."""
        for _ in range(self._count):
            port = self._first + self._next
            self._next = (self._next + 1) % self._count
            if _is_free(self._host, port):
                return port
        return None


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
