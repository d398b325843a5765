"""No replica over its ceiling, whatever is read late, crashes, or takes itself for active."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.gateway.claims import (
    Act,
    Add,
    Answer,
    Limit,
    Peer,
    Remove,
    ReplicaSeen,
    ReplicaWanted,
    Stance,
    may_raise,
    needs_hold,
    others_claims,
    reconcile,
)
from neuronfleet.serving.gateway.ledger import Ledger

FLEET = "ns.llama"
CEILINGS = {"r1": 3, "r2": 1}
WANTED = {
    name: ReplicaWanted(host="10.0.0.1", port=8000, ceiling=ceiling, serve=True)
    for name, ceiling in CEILINGS.items()
}
SILENT_S = 1e9
PODS = (0, 1)
REPLICA, CEILING = "r1", 2
ONE = {REPLICA: ReplicaWanted(host="10.0.0.1", port=8000, ceiling=CEILING, serve=True)}


def seen(limit: int, in_flight: int = 0) -> ReplicaSeen:
    return ReplicaSeen(host="10.0.0.1", port=8000, limit=limit, in_flight=in_flight)


@dataclass
class Pod:
    """One pod: what its queue's HAProxy has, and what it knows and says."""

    alive: bool = True
    active_since: float | None = None
    leaves: Stance | None = None
    queued: int = 0
    servers: dict[str, ReplicaSeen] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    peers: dict[int, Peer] = field(default_factory=dict)
    todo: list[Act] | None = None

    def answer(self) -> Answer:
        return Answer(
            active=self.active_since is not None, claims={FLEET: dict(self.ledger.claims)}
        )

    def begin(self, now: float) -> None:
        """Look and decide, as one round does."""
        peers = list(self.peers.values())
        stance = Stance.KEEP
        if self.active_since is not None:
            raises = may_raise(peers, self.active_since, now, SILENT_S)
            stance = Stance.RAISE if raises else Stance.KEEP
        elif self.leaves is not None:
            stance = self.leaves
        self.todo = reconcile(
            wanted=ONE,
            seen=self.servers,
            stance=stance,
            others=others_claims(peers, FLEET, now, SILENT_S),
            queued=self.queued,
        )
        self.ledger.before(self.todo)

    def act(self) -> None:
        """Do one thing that was decided, or tell what is claimed once all is done."""
        if self.todo:
            act = self.todo.pop(0)
            match act:
                case Add():
                    self.servers[act.replica] = seen(act.limit)
                case Limit():
                    server = self.servers[act.replica]
                    self.servers[act.replica] = replace(server, limit=act.limit)
        else:
            self.ledger.after(self.servers)
            self.todo = None

    def move(self, by: int) -> None:
        server = self.servers[REPLICA]
        self.servers[REPLICA] = replace(server, in_flight=server.in_flight + by)


class World:
    """Two pods whose rounds, questions, answers, streams, roles and crashes interleave."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.pods = {pod: self._new(pod) for pod in PODS}
        self.asked: list[tuple[int, int, float]] = []
        self.answered: list[tuple[int, int, float, Answer, bool]] = []

    def _new(self, pod: int, *, alive: bool = True) -> Pod:
        others = [other for other in PODS if other != pod]
        return Pod(
            alive=alive,
            peers={other: Peer(pod=str(other), host="h", since=self.now) for other in others},
        )

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def role(self, pod: int) -> None:
        # Between rounds, as in the agent; and as wrong as a Lease can be: several may be active.
        one = self.pods[pod]
        if one.alive and one.todo is None:
            one.active_since = self.tick() if one.active_since is None else None

    def leave(self, pod: int) -> None:
        self.pods[pod].leaves = self.rng.choice([None, Stance.YIELD, Stance.LEAVE])

    def ask(self, pod: int) -> None:
        self.asked += [(pod, other, self.tick()) for other in self.pods[pod].peers]

    def answer(self, pod: int) -> None:
        for question in [one for one in self.asked if one[1] == pod]:
            self.asked.remove(question)
            asks, _, at = question
            one = self.pods[pod]
            answer = one.answer() if one.alive else Answer()
            self.answered.append((asks, pod, at, answer, not one.alive))

    def hear(self, pod: int) -> None:
        for heard in [one for one in self.answered if one[0] == pod][:1]:
            self.answered.remove(heard)
            _, asked, at, answer, dead = heard
            peer = self.pods[pod].peers[asked]
            # One question at a time: a later answer is to a later question.
            if peer.asked_at is None or at > peer.asked_at:
                self.pods[pod].peers[asked] = replace(
                    peer, asked_at=at, heard_at=self.now, answer=answer, dead=dead
                )

    def talk(self, pod: int) -> None:
        self.ask(pod)
        for other in self.pods[pod].peers:
            self.answer(other)
        self.hear(pod)

    def round(self, pod: int) -> None:
        one = self.pods[pod]
        if one.alive and one.todo is None:
            one.begin(self.tick())

    def act(self, pod: int) -> None:
        if self.pods[pod].todo is not None:
            self.pods[pod].act()

    def whole_round(self, pod: int) -> None:
        self.round(pod)
        while self.pods[pod].todo is not None:
            self.pods[pod].act()

    def fail(self, pod: int) -> None:
        """HAProxy did not answer in the midst of a round."""
        self.pods[pod].todo = None

    def stream(self, pod: int) -> None:
        server = self.pods[pod].servers.get(REPLICA)
        if server is not None and server.in_flight < server.limit:
            self.pods[pod].move(1)

    def end(self, pod: int) -> None:
        server = self.pods[pod].servers.get(REPLICA)
        # Seldom: streams are long, compared with what else happens here.
        if server is not None and server.in_flight > 0 and self.rng.random() < 0.3:
            self.pods[pod].move(-1)

    def queue(self, pod: int) -> None:
        self.pods[pod].queued = self.rng.choice([0, 0, 0, 1])

    def crash_or_start(self, pod: int) -> None:
        # What it had asked dies with it.
        self.asked = [one for one in self.asked if one[0] != pod]
        self.answered = [one for one in self.answered if one[0] != pod]
        self.pods[pod] = self._new(pod, alive=not self.pods[pod].alive)

    def check(self) -> None:
        servers = [pod.servers[REPLICA] for pod in self.pods.values() if REPLICA in pod.servers]
        assert sum(max(one.limit, one.in_flight) for one in servers) <= CEILING

    def walk(self, steps: int) -> None:
        often = [self.ask, self.answer, self.hear, self.talk]
        often += [self.round, self.act, self.act, self.stream]
        seldom = [
            self.talk,
            self.whole_round,
            self.end,
            self.role,
            self.leave,
            self.queue,
            self.fail,
        ]
        for _ in range(steps):
            ways = often if self.rng.random() < 0.8 else seldom
            if self.rng.random() < 0.005:
                ways = [self.crash_or_start]
            self.rng.choice(ways)(self.rng.choice(PODS))
            self.check()

    def settle(self) -> None:
        """Leave pod 0 alone active, and let everybody hear of it."""
        self.asked, self.answered = [], []
        for one in self.pods.values():
            while one.todo is not None:
                one.act()
            one.active_since, one.leaves, one.queued, one.alive = None, Stance.LEAVE, 0, True
            one.servers = {name: replace(s, in_flight=0) for name, s in one.servers.items()}
        self.role(0)
        for pod in (1, 0, 1, 0):
            self.talk(pod)
            self.whole_round(pod)
            self.check()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_interleaving_passes_a_ceiling_and_in_the_end_all_slots_are_the_active_pods(
    seed: int,
) -> None:
    world = World(random.Random(seed))

    world.walk(600)
    world.settle()

    assert world.pods[0].servers[REPLICA].limit == CEILING


def decide(stance: Stance, **given: object) -> list[Act]:
    defaults: dict[str, object] = {"wanted": WANTED, "seen": {}, "others": {}, "queued": 0}
    return reconcile(stance=stance, **(defaults | given))  # type: ignore[arg-type]


def limits(acts: list[Act]) -> dict[str, int]:
    return {act.replica: act.limit for act in acts if isinstance(act, Add | Limit)}


def test_a_new_queue_takes_what_the_others_leave() -> None:
    assert limits(decide(Stance.RAISE, others={"r1": 2, "r2": 1})) == {"r1": 1}


def test_a_leaving_queue_keeps_its_slots_while_somebody_waits_there() -> None:
    servers = {"r1": seen(3, 1), "r2": seen(1)}

    assert decide(Stance.LEAVE, seen=servers, queued=1) == []
    assert limits(decide(Stance.LEAVE, seen=servers)) == {"r1": 1, "r2": 0}


def test_while_late_requests_may_come_one_free_slot_is_kept() -> None:
    assert limits(decide(Stance.YIELD, seen={"r1": seen(3, 1), "r2": seen(1)})) == {
        "r1": 2,
        "r2": 0,
    }


def test_what_lowers_a_claim_is_done_before_what_raises_one() -> None:
    wanted = {
        "r1": replace(WANTED["r1"], ceiling=5),
        "r2": replace(WANTED["r2"], serve=False),
    }

    acts = decide(Stance.RAISE, wanted=wanted, seen={"r1": seen(3), "r2": seen(1)})

    assert [(act.replica, act.limit) for act in acts if isinstance(act, Limit)] == [
        ("r2", 0),
        ("r1", 5),
    ]


@pytest.mark.parametrize("stance", Stance)
def test_a_draining_replica_gets_nothing_new_and_a_vanished_one_goes(stance: Stance) -> None:
    wanted = {"r1": replace(WANTED["r1"], serve=False)}

    acts = decide(stance, wanted=wanted, seen={"r1": seen(3, 2), "r2": seen(1)})

    assert Remove(replica="r2") in acts
    if stance is not Stance.YIELD:
        assert limits(acts)["r1"] in (0, 2)
    assert stance not in (Stance.RAISE, Stance.KEEP) or limits(acts)["r1"] == 0


def test_a_pod_that_came_back_under_its_name_elsewhere_is_a_new_replica() -> None:
    servers = {"r1": replace(seen(3, 1), host="10.0.0.9")}

    assert decide(Stance.RAISE, seen=servers)[0] == Remove(replica="r1")


def test_requests_are_held_only_while_others_claim_every_slot_that_there_is() -> None:
    assert needs_hold(WANTED, {"r1": 0})
    assert not needs_hold(WANTED, {"r1": 1})
    assert not needs_hold({}, {}), "without a replica requests are refused at once"


def test_a_silent_pod_keeps_its_last_claims_until_it_has_cut_itself_off() -> None:
    peer = Peer(
        pod="b",
        host="h",
        since=0.0,
        asked_at=5.0,
        heard_at=5.1,
        answer=Answer(claims={FLEET: {"r1": 2}}),
    )

    assert others_claims([peer], FLEET, now=10.0, silent_s=10.0) == {"r1": 2}
    assert others_claims([peer], FLEET, now=15.2, silent_s=10.0) == {}
    assert not may_raise([replace(peer, asked_at=None)], 6.0, now=10.0, silent_s=10.0)
    assert not may_raise([peer], 6.0, now=10.0, silent_s=10.0), "that was before we were active"
    assert may_raise([peer], 4.0, now=10.0, silent_s=10.0)
    assert may_raise([peer], 6.0, now=15.2, silent_s=10.0)


def test_a_stream_that_slips_in_while_a_claim_is_lowered_stays_claimed() -> None:
    pod = Pod(leaves=Stance.LEAVE, servers={REPLICA: seen(2)})

    pod.begin(1.0)
    pod.move(1)
    pod.act()
    pod.act()

    assert pod.servers[REPLICA].limit == 0
    assert pod.answer().claims == {FLEET: {REPLICA: 1}}


def test_a_claim_is_told_before_it_grows_and_stays_told_if_haproxy_does_not_answer() -> None:
    pod = Pod(active_since=1.0)

    pod.begin(2.0)
    pod.todo = None

    assert pod.answer().claims == {FLEET: {REPLICA: CEILING}}
