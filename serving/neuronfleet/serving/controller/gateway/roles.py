"""Which pod has the queues, and where routers point; pure."""

from collections.abc import Iterable

from neuronfleet.serving.gateway.claims import Peer, Stance
from neuronfleet.serving.gateway.router import Address

RECENT_S = 1.5
"""An answer older than this says nothing of now: pods ask each other four times a second."""
_CUT_OFF_S = 2.0
"""A pod cuts itself off this much before others forget its claims."""


def is_active(
    *, held: bool, reachable: bool, was_active: bool, peers: Iterable[Peer], now: float
) -> bool:
    """Whether this pod has the queues: it holds the Lease, or nobody else can.

    Without the API server nobody renews the Lease, and traffic must not stop for that: who had the
    queues keeps them while every other pod says that it has not, or is dead.
    """
    if held:
        return True
    if not was_active or reachable:
        return False
    return all(_recent(peer, now) and not peer.answer.active for peer in peers)


def is_cut_off(*, reachable: bool, peers: Iterable[Peer], now: float, silent_s: float) -> bool:
    """Whether others may soon forget what this pod claims: it reaches neither them nor the API."""
    if reachable:
        return False
    return any(
        now - (peer.since if peer.heard_at is None else peer.heard_at) > silent_s - _CUT_OFF_S
        for peer in peers
    )


def taker(peers: Iterable[Peer], fleet: str) -> Peer | None:
    """The pod that has taken the fleet's queue, if another has."""
    for peer in peers:
        if peer.answer.active and fleet in peer.answer.queues:
            return peer
    return None


def target(
    fleet: str, *, own: Address | None, active: bool, peers: Iterable[Peer]
) -> Address | None:
    """Where the queue of a fleet is asked; `own` is this pod's, where it has one that is ready."""
    peers = tuple(peers)
    if own is not None and active:
        return own
    other = taker(peers, fleet)
    if other is not None:
        return other.host, other.answer.queues[fleet]
    if own is not None:
        return own
    # The pod that leaves, while nobody has taken over.
    for peer in peers:
        if fleet in peer.answer.queues:
            return peer.host, peer.answer.queues[fleet]
    return None


def stance(
    *, active: bool, may_raise: bool, leaving_since: float | None, now: float, grace_s: float
) -> Stance:
    """What a queue may do; `leaving_since` is when it should no longer be asked."""
    if leaving_since is not None:
        return Stance.YIELD if now - leaving_since < grace_s else Stance.LEAVE
    return Stance.RAISE if active and may_raise else Stance.KEEP


def _recent(peer: Peer, now: float) -> bool:
    return peer.heard_at is not None and now - peer.heard_at < RECENT_S
