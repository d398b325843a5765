import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.bench.sse import SseScanner
from tests.serving.bench.fakes import DONE, answer, event, last_usage

WHOLE = b"".join(
    [
        event(0, ""),
        event(3, ' "completion_tokens": 900,"text'),
        b": a comment\n\n",
        event(5, " Grüße 🚀 \ndata: [DONE]\n"),
        event(6, '{"error"'),
        last_usage(6),
        DONE,
    ]
)


def state(scan: SseScanner) -> tuple[object, ...]:
    return scan.tokens, scan.first_tokens, scan.prompt_tokens, scan.done, scan.error


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_however_the_bytes_are_cut_the_answer_is_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    scan = SseScanner()

    for now, (begin, end) in enumerate(itertools.pairwise(edges)):
        scan.feed(WHOLE[begin:end], float(now))
    scan.finish(99.0)

    assert state(scan) == (6, 3, 7, True, False)


def test_a_character_that_two_reads_share_is_no_error() -> None:
    text = event(1, "🚀")
    middle = text.index("🚀".encode()) + 2
    scan = SseScanner()

    scan.feed(text[:middle], 1.0)
    half = scan.first_at
    scan.feed(text[middle:], 2.0)

    assert (half, scan.first_at, scan.tokens) == (None, 2.0, 1)


def test_times_are_those_of_the_first_and_the_last_token() -> None:
    scan = SseScanner()
    for now, chunk in enumerate([event(0, ""), *answer([1, 2, 3])]):
        scan.feed(chunk, float(now))
    scan.finish(9.0)

    assert (scan.first_at, scan.last_at) == (1.0, 3.0)


def test_two_chunks_in_one_read_are_told_apart() -> None:
    scan = SseScanner()

    scan.feed(event(2) + event(5), 1.0)

    assert (scan.first_tokens, scan.tokens) == (2, 5)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("spaced", [False, True])
def test_other_servers_spaces_and_line_ends_are_read_too(end: bytes, spaced: bool) -> None:
    scan = SseScanner()

    chunks = [event(1, spaced=spaced), event(2, spaced=spaced), last_usage(2), DONE]
    for chunk in chunks:
        scan.feed(chunk.replace(b"\n\n", end), 1.0)
    scan.finish(2.0)

    assert state(scan) == (2, 1, 7, True, False)


def test_a_server_that_counts_only_at_the_end_gives_times_and_no_first_count() -> None:
    scan = SseScanner()
    for now, chunk in enumerate([event(None), event(None), last_usage(2), DONE]):
        scan.feed(chunk, float(now))
    scan.finish(9.0)

    assert (scan.first_at, scan.last_at) == (0.0, 1.0)
    assert (scan.first_tokens, scan.tokens) == (None, 2)


@given(st.lists(st.binary(max_size=40)))
def test_garbage_is_no_token(chunks: list[bytes]) -> None:
    scan = SseScanner()

    for chunk in chunks:
        scan.feed(chunk, 1.0)
    scan.finish(2.0)

    assert scan.first_at is None
