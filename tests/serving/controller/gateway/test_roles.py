from dataclasses import replace

from neuronfleet.serving.controller.gateway import roles
from neuronfleet.serving.gateway.claims import Answer, Peer, Stance

NOW = 100.0
WAITS = Peer(pod="b", host="10.0.0.2", since=0.0, asked_at=99.8, heard_at=99.9)
HAS = replace(WAITS, answer=Answer(active=True, queues={"f": 20001}))
LEAVES = replace(WAITS, answer=Answer(active=False, queues={"f": 20002}))
SILENT = replace(WAITS, heard_at=91.0)
DEAD = replace(WAITS, dead=True)
OWN = ("10.0.0.1", 20000)


def active(peer: Peer, *, held: bool = False, reachable: bool = False, was: bool = True) -> bool:
    return roles.is_active(held=held, reachable=reachable, was_active=was, peers=[peer], now=NOW)


def test_the_lease_gives_the_queues() -> None:
    assert active(HAS, held=True, was=False)
    assert not active(WAITS, reachable=True), "somebody else can take it now"


def test_without_the_api_server_who_had_the_queues_keeps_them_unless_another_may_have_them() -> (
    None
):
    assert active(WAITS)
    assert active(DEAD)
    assert not active(WAITS, was=False)
    assert not active(HAS)
    assert not active(SILENT), "on the other side of a partition it may have the Lease"


def test_a_pod_that_reaches_nobody_cuts_itself_off_before_it_is_forgotten() -> None:
    def cut_off(peer: Peer, *, reachable: bool = False) -> bool:
        return roles.is_cut_off(reachable=reachable, peers=[peer], now=NOW, silent_s=10.0)

    assert cut_off(SILENT)
    assert not cut_off(SILENT, reachable=True)
    assert not cut_off(WAITS)


def test_routers_ask_the_active_pod_and_else_who_still_has_a_queue() -> None:
    def target(own: tuple[str, int] | None, active: bool, *peers: Peer) -> object:
        return roles.target("f", own=own, active=active, peers=peers)

    assert target(OWN, True, HAS) == OWN
    assert target(OWN, False, HAS) == ("10.0.0.2", 20001)
    assert target(OWN, False, WAITS) == OWN
    assert target(None, True, LEAVES) == ("10.0.0.2", 20002)
    assert target(None, True, WAITS) is None


def test_a_queue_that_should_not_be_asked_any_more_yields_and_then_leaves() -> None:
    def stance(active: bool, may_raise: bool, since: float | None) -> Stance:
        return roles.stance(
            active=active, may_raise=may_raise, leaving_since=since, now=NOW, grace_s=2.0
        )

    assert stance(True, True, None) is Stance.RAISE
    assert stance(True, False, None) is Stance.KEEP
    assert stance(False, True, None) is Stance.KEEP
    assert stance(False, False, 99.0) is Stance.YIELD
    assert stance(True, True, 97.0) is Stance.LEAVE
