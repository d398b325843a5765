"""Whose slots are whose: several queues of a fleet, and no replica over its ceiling.

A queue claims `max(limit, in flight)` slots of a replica, limit being the maxconn that it set. Two
rules keep the sum of all claims within the ceiling, whatever is read late:

- A claim is told before it grows, and after it has shrunk.
- Only an active pod lets claims grow. It says that it is active first, and then counts only what
  others answered to questions asked after that: of two that took themselves for active, at least
  one finds the other so and waits. What an inactive pod claims can only fall until it is active
  again, so an old answer of it errs on the safe side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Stance(StrEnum):
    """What a queue may do with its claims."""

    RAISE = "raise"
    """Take what no other queue claims."""
    KEEP = "keep"
    """Take nothing more: another queue may be about to."""
    YIELD = "yield"
    """Give up what is free, but for one slot: late requests may still come."""
    LEAVE = "leave"
    """Give up all that holds no stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWanted:
    """A replica as the cluster has it."""

    host: str
    port: int
    ceiling: int
    serve: bool
    """False while it drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSeen:
    """A replica as one queue has it."""

    host: str
    port: int
    limit: int
    """Slots that this queue may fill; 0 is a server that drains."""
    in_flight: int

    @property
    def claim(self) -> int:
        """Slots that no other queue may fill."""
        return max(self.limit, self.in_flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Give a replica to the queue."""

    replica: str
    host: str
    port: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Let the queue fill so many slots of a replica; 0 drains it."""

    replica: str
    limit: int
    was: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Take a replica away, and cut what is left of its streams: its pod is gone."""

    replica: str


Act = Add | Limit | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a pod's agent says of itself."""

    active: bool = False
    claims: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By fleet and replica."""
    queues: Mapping[str, int] = field(default_factory=dict)
    """Ports of the queues that take requests, by fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another pod as this one knows it; times are this one's monotonic seconds."""

    pod: str
    host: str
    since: float
    """When it was first seen."""
    asked_at: float | None = None
    """When it was asked what `answer` and `dead` say; None while nothing has come of it yet."""
    heard_at: float | None = None
    """When that came."""
    answer: Answer = field(default_factory=Answer)
    dead: bool = False
    """It refused the connection: no process, no queue, so an empty `answer`."""

    def forgotten(self, now: float, silent_s: float) -> bool:
        """Whether it is silent for so long that it has cut itself off, and claims nothing."""
        heard = self.since if self.heard_at is None else self.heard_at
        return now - heard > silent_s


def may_raise(peers: Iterable[Peer], active_since: float, now: float, silent_s: float) -> bool:
    """Whether a pod that is active since `active_since` may let its claims grow."""
    return all(
        peer.forgotten(now, silent_s)
        or (peer.asked_at is not None and peer.asked_at > active_since and not peer.answer.active)
        for peer in peers
    )


def others_claims(peers: Iterable[Peer], fleet: str, now: float, silent_s: float) -> dict[str, int]:
    """Slots claimed by other pods, by replica."""
    claims: dict[str, int] = {}
    for peer in peers:
        if peer.forgotten(now, silent_s):
            continue
        for replica, slots in peer.answer.claims.get(fleet, {}).items():
            claims[replica] = claims.get(replica, 0) + slots
    return claims


def reconcile(
    *,
    wanted: Mapping[str, ReplicaWanted],
    seen: Mapping[str, ReplicaSeen],
    stance: Stance,
    others: Mapping[str, int],
    queued: int,
) -> list[Act]:
    """What one queue does next: what lowers claims first."""
    acts: list[Act] = [
        Remove(replica=name)
        for name, server in seen.items()
        if name not in wanted
        or (wanted[name].host, wanted[name].port) != (server.host, server.port)
    ]
    removed = {act.replica for act in acts}
    goals = {
        name: _goal(replica, seen.get(name), stance, others.get(name, 0), queued)
        for name, replica in wanted.items()
        if name not in removed
    }
    if stance is Stance.YIELD and queued == 0:
        _spare(goals, seen)
    changes: list[Act] = []
    for name, goal in goals.items():
        server = seen.get(name)
        if server is not None and goal != server.limit:
            changes.append(Limit(replica=name, limit=goal, was=server.limit))
        elif server is None and goal > 0:
            replica = wanted[name]
            changes.append(Add(replica=name, host=replica.host, port=replica.port, limit=goal))
    changes.sort(key=lambda act: _grows(act))
    return acts + changes


def _goal(
    replica: ReplicaWanted, server: ReplicaSeen | None, stance: Stance, others: int, queued: int
) -> int:
    limit = 0 if server is None else server.limit
    most = replica.ceiling if replica.serve else 0
    match stance:
        case Stance.RAISE:
            return max(0, most - others)
        case Stance.KEEP:
            return min(limit, most)
        case Stance.YIELD | Stance.LEAVE:
            # Who waits here was promised a slot here.
            flying = 0 if server is None else server.in_flight
            return min(limit, most) if queued else min(limit, most, flying)


def _spare(goals: dict[str, int], seen: Mapping[str, ReplicaSeen]) -> None:
    """Keep one free slot, on the replica that has most."""
    free = {name: seen[name].limit - seen[name].in_flight for name in goals if name in seen}
    name = max(free, key=lambda one: (free[one], one), default=None)
    if name is not None and free[name] > 0 and seen[name].limit > goals[name]:
        goals[name] += 1


def _grows(act: Act) -> bool:
    return isinstance(act, Add) or (isinstance(act, Limit) and act.limit > act.was)


def needs_hold(wanted: Mapping[str, ReplicaWanted], limits: Mapping[str, int]) -> bool:
    """Whether requests have to wait though this queue has no slot: others claim all there are."""
    slots = any(replica.serve and replica.ceiling > 0 for replica in wanted.values())
    return slots and not any(limits.values())
