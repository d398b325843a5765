from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.emulator.tokens import (
    chat_prompt,
    expected_chat_text,
    expected_text,
    id_prompt,
    plan_output,
    text_prompt,
)


def test_a_word_is_a_token_and_a_text_has_one_more() -> None:
    assert text_prompt("one  two\nthree").tokens == 4
    assert text_prompt("").tokens == 1


def test_a_list_of_ids_counts_as_itself() -> None:
    assert id_prompt([7] * 1000).tokens == 1000


def test_the_chat_template_adds_a_fixed_few() -> None:
    # BOS 1, each message 4, the answer's opening 3.
    assert chat_prompt(["a b", "c"]).tokens == 1 + (4 + 2) + (4 + 1) + 3


def test_the_answer_depends_on_the_prompt_alone() -> None:
    assert expected_text("one two", 8) == expected_text("one two", 8)
    assert expected_text("one two", 8) != expected_text("one three", 8)
    assert expected_text([1, 2], 8) != expected_text([1, 3], 8)
    assert expected_chat_text(["hi"], 3) == expected_chat_text(["hi"], 9)[:18]


def test_a_canary_can_hard_code_an_answer() -> None:
    assert expected_text("one two", 3) == " ember eagle giant"


def test_an_answer_has_a_word_a_token() -> None:
    assert len(expected_text("one", 3000).split()) == 3000


def test_a_prompt_is_cut_to_its_last_tokens() -> None:
    assert id_prompt([1, 2, 3, 4], keep=2) == id_prompt([3, 4])


def test_a_stop_string_ends_with_the_token_that_completes_it() -> None:
    text = expected_text("one two", 9)
    stop = text.split()[2][1:4]
    output = plan_output(text_prompt("one two").start, 9, [stop])

    assert (output.tokens, output.finish_reason, output.stop_reason) == (3, "stop", stop)
    assert output.piece(0, 3).decode() == text[:14]


def test_a_stop_string_may_span_tokens_and_may_be_kept() -> None:
    text = expected_text("one two", 9)
    stop = text[10:15]
    output = plan_output(text_prompt("one two").start, 9, [stop], keep_stop=True)

    assert output.tokens == 3
    assert output.piece(0, 3).decode() == text[:15]


def test_no_stop_string_counts_before_min_tokens() -> None:
    start = text_prompt("one two").start
    stop = expected_text("one two", 1)

    assert plan_output(start, 2000, [stop]).tokens == 1
    assert plan_output(start, 2000, [stop], min_tokens=1).tokens > 1


@given(
    start=st.integers(0, 1023),
    limit=st.integers(1, 60),
    stops=st.lists(st.sampled_from(["a", "e", "maple", " i", "zz", "n l"]), max_size=3),
    minimum=st.integers(0, 5),
    steps=st.lists(st.integers(1, 7), min_size=60, max_size=60),
)
def test_the_pieces_of_a_stream_make_the_whole_text(
    start: int, limit: int, stops: list[str], minimum: int, steps: list[int]
) -> None:
    output = plan_output(start, limit, stops, min_tokens=minimum)
    sent, pieces = 0, []
    for step in steps:
        upto = min(output.tokens, sent + step)
        pieces.append(output.piece(sent, upto))
        sent = upto

    assert b"".join(pieces) == output.piece(0, output.tokens)
    assert 1 <= output.tokens <= limit
