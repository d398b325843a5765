import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from neuronfleet_replica.canary import Memory, Step, Verdict, check, decide, forget, judge, recall
from neuronfleet_replica.server import Answer, Look, read_metrics
from neuronfleet_replica.settings import Canary, Settings
from tests.images.replica.helpers import FakeServer, completion

Make = Callable[..., Settings]
COUNTS = st.none() | st.integers(0, 64).map(float)


def memory(tokens: float | None = 0.0, still: int = 0) -> Memory:
    return Memory(tokens=tokens, still=still, well=True, reason="", at=0.0)


def seen(running: float | None, waiting: float | None = 0, tokens: float | None = 0) -> Look:
    return Look(running=running, waiting=waiting, tokens=tokens)


def test_an_idle_replica_is_asked_at_temperature_0(server: FakeServer, settings: Make) -> None:
    verdict = check(settings(), 5)

    assert verdict == Verdict(well=True, reason="answered correctly")
    assert server.questions == [
        {"model": "llama", "prompt": "Say yes.", "max_tokens": 4, "temperature": 0}
    ]


def test_a_busy_replica_whose_tokens_move_is_not_asked(server: FakeServer, settings: Make) -> None:
    check(settings(), 5)
    server.running, server.tokens = 2, 100

    assert check(settings(), 5).well
    assert len(server.questions) == 1


def test_a_busy_replica_whose_tokens_stand_still_is_asked_while_a_slot_is_free(
    server: FakeServer, settings: Make
) -> None:
    server.running, server.tokens = 3, 100
    check(settings(), 5)
    server.tokens = 104  # the canary's own tokens count for nothing

    check(settings(), 5)

    assert len(server.questions) == 2


def test_a_full_replica_that_stands_still_is_never_asked_and_fails_at_the_third_look(
    server: FakeServer, settings: Make
) -> None:
    check(settings(), 5)
    server.running, server.waiting, server.tokens = 3, 1, 4

    verdicts = [check(settings(), 5).well for _ in range(4)]

    assert verdicts == [True, True, False, False]
    assert len(server.questions) == 1


def test_a_token_ends_the_count_of_still_looks(server: FakeServer, settings: Make) -> None:
    check(settings(), 5)
    server.running, server.tokens = 4, 4
    first = [check(settings(), 5).well for _ in range(2)]
    server.tokens = 5

    assert [check(settings(), 5).well for _ in range(3)] == [True, True, True]
    assert first == [True, True]


def test_a_replica_that_is_full_at_the_first_look_is_not_known_to_be_well() -> None:
    assert decide(seen(4), None, 4)[0] is Step.SICK


def test_tokens_that_fell_are_of_another_server_so_it_is_asked() -> None:
    assert decide(seen(1, tokens=5), memory(tokens=900), 4)[0] is Step.ASK


def test_what_no_metric_tells_is_asked(server: FakeServer, settings: Make) -> None:
    server.running = server.waiting = server.tokens = None

    assert check(settings(), 5).well
    assert len(server.questions) == 1


@examples(deadline=None)
@given(running=COUNTS, waiting=COUNTS, tokens=COUNTS, last=COUNTS, ceiling=st.integers(1, 64))
def test_no_question_passes_the_ceiling(
    running: float | None,
    waiting: float | None,
    tokens: float | None,
    last: float | None,
    ceiling: int,
) -> None:
    step, _, _ = decide(seen(running, waiting, tokens), memory(tokens=last), ceiling)

    if step is Step.ASK and running is not None:
        assert running + (waiting or 0) + 1 <= ceiling


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (completion(""), "empty answer"),
        (completion(None), "empty answer"),
        ("{}", "empty answer"),
        ("data: [DONE]", "empty answer"),
        ("[]", "empty answer"),
        (completion("no idea"), "wrong answer"),
    ],
)
def test_200_with_no_answer_or_a_wrong_one_is_not_well(
    server: FakeServer, settings: Make, answer: str, reason: str
) -> None:
    server.answer = answer

    verdict = check(settings(canary__expect="yes"), 5)

    assert not verdict.well
    assert reason in verdict.reason


def test_an_answer_need_only_hold_what_is_expected() -> None:
    canary = Canary(prompt="x", max_tokens=4, expect="(?i)YES")

    assert judge(Answer(status=200, text="Oh, yes!", tokens=4), canary).well


def test_a_refusal_is_not_well(server: FakeServer, settings: Make) -> None:
    server.status = 503

    assert check(settings(), 5) == Verdict(well=False, reason="the question was answered 503")


def test_a_server_that_does_not_listen_is_not_well(settings: Make) -> None:
    port = 1  # reserved, so that nothing listens on it

    assert check(settings(port=port), 5).reason == "nothing listens on port 1"


def test_an_answer_that_does_not_come_in_time_is_not_well(
    server: FakeServer, settings: Make
) -> None:
    server.gate.clear()

    verdict = check(settings(), 0.4)

    assert not verdict.well
    assert "no answer in" in verdict.reason


def test_metrics_that_fail_are_not_well(server: FakeServer, settings: Make) -> None:
    server.metrics_status = 500

    assert check(settings(), 5) == Verdict(well=False, reason="/metrics answered 500")
    assert not server.questions


def test_probes_at_the_same_time_ask_once_and_agree(server: FakeServer, settings: Make) -> None:
    server.gate.clear()
    verdicts: list[Verdict] = []
    probes = [
        threading.Thread(target=lambda: verdicts.append(check(settings(), 8))) for _ in range(3)
    ]
    for probe in probes:
        probe.start()
    while not server.questions:
        time.sleep(0.01)
    time.sleep(0.2)
    server.gate.set()
    for probe in probes:
        probe.join()

    assert len(server.questions) == server.most_asking == 1
    assert verdicts == [Verdict(well=True, reason="answered correctly")] * 3


def test_a_probe_that_waits_in_vain_for_another_fails(server: FakeServer, settings: Make) -> None:
    server.gate.clear()
    first = threading.Thread(target=check, args=(settings(), 8))
    first.start()
    while not server.questions:
        time.sleep(0.01)

    verdict = check(settings(), 0.2)
    server.gate.set()
    first.join()

    assert verdict == Verdict(well=False, reason="another canary still waits for its answer")


def test_what_an_earlier_container_left_is_forgotten(server: FakeServer, settings: Make) -> None:
    check(settings(), 5)
    kept = recall()
    forget()
    forget()

    assert kept is not None
    assert recall() is None


def test_metrics_are_summed_over_engines_and_their_neighbours_left_out() -> None:
    text = "\n".join(
        [
            'vllm:num_requests_running{engine="0"} 2.0',
            'vllm:num_requests_running{engine="1"} 3.0',
            'vllm:num_requests_waiting_by_reason{engine="0"} 9.0',
            'vllm:generation_tokens_total{engine="0"} 1e+06',
            "vllm:generation_tokens_created 1.7e+09",
            "vllm:num_requests_waiting not-a-number",
        ]
    )

    assert read_metrics(text) == Look(running=5.0, waiting=None, tokens=1e6)


@examples(deadline=None)
@given(st.text())
def test_any_text_reads_as_metrics_or_as_none(text: str) -> None:
    assert isinstance(read_metrics(text), Look)
