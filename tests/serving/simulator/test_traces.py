import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.traffic import Lengths
from neuronfleet.serving.replica.replay import Arrival
from neuronfleet.serving.simulator.traces import Playback, Trace, read_trace

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:07.9799600,110,27
"""
AZURE_ZONED = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00+00:00,4808,10
2024-05-10 00:00:00.052000+00:00,3180,8
2024-05-10 00:00:04+00:00,110,27
"""
NORMAL = """\
t_s,input_tokens,output_tokens
0.000,4808,10
0.052,3180,8
4.000,110,27
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 4808, "output_length": 10, "hash_ids": [0, 1, 2]}
{"timestamp": 52, "input_length": 3180, "output_length": 8, "hash_ids": [0, 3]}
{"timestamp": 4000, "input_length": 110, "output_length": 27, "hash_ids": []}
"""
MOONCAKE_NORMAL = """\
t_s,input_tokens,output_tokens,prefix_blocks_512,prefix_blocks_hit_infinite_cache
0.000,4808,10,10,0
0.052,3180,8,7,1
4.000,110,27,1,0
"""
BURST = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,4808,10,4818,Conversation log
5.052,GPT-4,3180,8,3188,API log
9,ChatGPT,110,27,137,Conversation log
"""
BURST_SESSIONS = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82-0a46,43,GPT-4,4808,10,4818,Conversation log
19440110.052,,2,ChatGPT,3180,8,3188,API log
19440114.0,d5983bf9-4b48,1,ChatGPT,110,27,137,Conversation log
"""
HOURLY = """\
hour_start_s,requests_attributed,inferred_sessions
0,85,1
3600,0,0
7200,40,2
"""
SAMPLES = {
    "azure-llm-2023": AZURE,
    "azure-llm-2023-normalised": NORMAL,
    "mooncake-fast25": MOONCAKE,
    "mooncake-fast25-normalised": MOONCAKE_NORMAL,
    "burstgpt": BURST,
    "burstgpt-sessions": BURST_SESSIONS,
}
LENGTHS = Lengths(values=((5, 0.5), (9, 0.5)))
COUNTS = Playback(input_tokens=LENGTHS, output_tokens=LENGTHS)


def read(text: str, playback: Playback = Playback()) -> Trace:  # noqa: B008 - it is frozen
    return read_trace(text.splitlines(keepends=True), "trace.csv", playback)


def times(trace: Trace) -> list[float]:
    return [one.at_ms for one in trace.arrivals]


@pytest.mark.parametrize(("form", "text"), SAMPLES.items())
def test_each_format_is_recognised_and_read(form: str, text: str) -> None:
    trace = read(text)

    assert (trace.format, trace.rows, trace.bad) == (form, 3, ())
    assert trace.arrivals == (
        Arrival(at_ms=0, prompt_tokens=4808, output_tokens=10),
        Arrival(at_ms=52, prompt_tokens=3180, output_tokens=8),
        Arrival(at_ms=4000, prompt_tokens=110, output_tokens=27),
    )


def test_times_with_a_zone_are_read_as_those_without() -> None:
    assert read(AZURE_ZONED).arrivals == read(AZURE).arrivals


def test_windows_line_ends_a_byte_order_mark_and_blank_lines_change_nothing() -> None:
    assert read("\ufeff" + NORMAL.replace("\n", "\r\n\r\n")).arrivals == read(NORMAL).arrivals


def test_hourly_counts_are_drawn_within_their_hours() -> None:
    trace = read(HOURLY, COUNTS)

    assert (trace.format, trace.rows) == ("burstgpt-hourly", 3)
    assert Counter(int(at / 3_600_000) for at in times(trace)) == {0: 85, 2: 40}
    assert times(trace) == sorted(times(trace))
    assert {one.prompt_tokens for one in trace.arrivals} == {5, 9}
    assert read(HOURLY, COUNTS) == trace


def test_hourly_counts_without_lengths_are_refused() -> None:
    with pytest.raises(SpecError, match=r"trace\.csv: holds counts alone, so input_tokens"):
        read(HOURLY)


def test_an_unknown_format_names_the_file_what_it_saw_and_what_it_knows() -> None:
    with pytest.raises(SpecError) as caught:
        read("time,prompt,answer\n1,2,3\n")

    message = str(caught.value)
    assert message.startswith("trace.csv: begins with 'time,prompt,answer', must be one of")
    for form in [*SAMPLES, "burstgpt-hourly"]:
        assert form in message


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_told(text: str) -> None:
    with pytest.raises(SpecError, match=r"trace\.csv: is empty"):
        read(text)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1.0,5", "2 columns, must be 3"),
        ("1.0,5,6,7", "4 columns, must be 3"),
        ("soon,5,6", "t_s = 'soon', must be a number"),
        ("nan,5,6", "t_s = 'nan', must be a time of 0 or more"),
        ("inf,5,6", "t_s = 'inf', must be a time of 0 or more"),
        ("-1,5,6", "t_s = '-1', must be a time of 0 or more"),
        ("1.0,x,6", "input_tokens = 'x', must be a whole number"),
        ("1.0,1.5,6", "input_tokens = '1.5', must be a whole number"),
        ("1.0,-5,6", "input_tokens = -5, must be in [1, 1048576]"),
        ("1.0,5,0", "output_tokens = 0, must be in [1, 1048576]"),
        ("1.0,5," + "9" * 5000, f"output_tokens = '{'9' * 5000}', must be a whole number"),
        ("9999.0,5,6", "out of order: its time is over 60 s off its neighbours'"),
    ],
)
def test_a_bad_row_is_named_and_left_out(line: str, reason: str) -> None:
    header, first, *others = NORMAL.splitlines()

    trace = read("\n".join([header, first, line, *others]))

    assert trace.arrivals == read(NORMAL).arrivals
    assert trace.rows == 4
    assert [(bad.line, bad.text, bad.reason) for bad in trace.bad] == [(3, line[:80], reason)]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        "[" * 100_000,
        '{"timestamp": 60}',
        '{"timestamp": null, "input_length": 5, "output_length": 5}',
        '{"timestamp": true, "input_length": 5, "output_length": 5}',
        '{"timestamp": NaN, "input_length": 5, "output_length": 5}',
        '{"timestamp": 60, "input_length": 5.5, "output_length": 5}',
        '{"timestamp": 60, "input_length": 5, "output_length": 0}',
    ],
)
def test_a_bad_line_of_json_is_named_and_left_out(line: str) -> None:
    trace = read(MOONCAKE + line)

    assert trace.arrivals == read(MOONCAKE).arrivals
    assert [bad.line for bad in trace.bad] == [4]


@pytest.mark.parametrize("line", ["3600,-1,0", "3600,1.5,0", "3600,1", "yesterday,1,1"])
def test_a_bad_hour_is_named_and_left_out(line: str) -> None:
    trace = read(HOURLY.replace("3600,0,0", line), COUNTS)

    assert (trace.rows, len(trace.arrivals)) == (3, 125)
    assert [bad.line for bad in trace.bad] == [3]


def test_a_row_that_was_logged_a_little_late_is_sorted_in() -> None:
    trace = read("t_s,input_tokens,output_tokens\n0,1,1\n30,2,2\n10,3,3\n40,4,4\n")

    assert trace.bad == ()
    assert [one.prompt_tokens for one in trace.arrivals] == [1, 3, 2, 4]


def test_without_a_good_row_the_trace_is_refused_with_reasons() -> None:
    with pytest.raises(SpecError, match="no good row of azure-llm-2023-normalised among 5") as why:
        read("t_s,input_tokens,output_tokens\n" + "a,b\n" * 5)
    assert "line 2 = 'a,b', 2 columns, must be 3" in str(why.value)

    with pytest.raises(SpecError, match="has the header of azure-llm-2023-normalised and no row"):
        read("t_s,input_tokens,output_tokens\n")


def test_speed_compresses_time() -> None:
    assert times(read(NORMAL, Playback(speed=8))) == [0, 6.5, 500]


def test_a_limit_keeps_the_traces_own_first_seconds() -> None:
    trace = read(NORMAL, Playback(limit_s=4, speed=2))

    assert (times(trace), trace.rows) == ([0, 26], 3)


def test_a_limit_of_hourly_counts_cuts_within_an_hour() -> None:
    trace = read(HOURLY, Playback(input_tokens=LENGTHS, output_tokens=LENGTHS, limit_s=1800))

    assert 20 < len(trace.arrivals) < 65
    assert max(times(trace)) < 1_800_000


def test_jitter_spreads_a_volley_and_keeps_it_in_order() -> None:
    volley = "t_s,input_tokens,output_tokens\n" + "0,1,1\n" * 50 + "3,2,2\n" * 50
    trace = read(volley, Playback(jitter_s=3, seed=4))

    assert times(trace) == sorted(set(times(trace)))
    assert [one.prompt_tokens for one in trace.arrivals] == [1] * 50 + [2] * 50
    assert trace == read(volley, Playback(jitter_s=3, seed=4))
    assert trace != read(volley, Playback(jitter_s=3, seed=5))


@pytest.mark.parametrize("options", [{"speed": 0}, {"limit_s": 0}, {"jitter_s": -1}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(options))} = .*, must be"):
        Playback(**options)  # type: ignore[arg-type]  # all of these are numbers


TOKENS = st.integers(1, 100_000)
REQUESTS = st.lists(st.tuples(st.integers(0, 10_000_000), TOKENS, TOKENS), min_size=1).map(sorted)


def written(form: str, requests: list[tuple[int, int, int]]) -> str:
    lines = [] if form == "mooncake-fast25" else [SAMPLES[form].splitlines()[0]]
    for ms, took, gave in requests:
        row = {"timestamp": ms, "input_length": took, "output_length": gave, "hash_ids": [1]}
        moment = f"2023-11-{16 + ms // 86_400_000:02} 00:00:00"
        day_s = ms % 86_400_000 / 1000
        clock = f"{day_s // 3600:02.0f}:{day_s // 60 % 60:02.0f}:{day_s % 60:010.7f}"
        lines.append(
            {
                "azure-llm-2023": f"{moment[:11]}{clock},{took},{gave}",
                "azure-llm-2023-normalised": f"{ms / 1000:.3f},{took},{gave}",
                "mooncake-fast25": json.dumps(row),
                "mooncake-fast25-normalised": f"{ms / 1000:.3f},{took},{gave},1,0",
                "burstgpt": f"{ms / 1000},m,{took},{gave},{took + gave},log",
                "burstgpt-sessions": f"{ms / 1000},s,1,m,{took},{gave},{took + gave},log",
            }[form]
        )
    return "\n".join(lines)


@given(st.sampled_from(sorted(SAMPLES)), REQUESTS)
def test_a_trace_that_is_written_reads_back(
    form: str, requests: list[tuple[int, int, int]]
) -> None:
    trace = read(written(form, requests))

    start = requests[0][0]
    assert trace.format == form
    assert [(one.at_ms, one.prompt_tokens, one.output_tokens) for one in trace.arrivals] == [
        (ms - start, took, gave) for ms, took, gave in requests
    ]


GARBAGE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1).filter(
    lambda text: text.count(",") not in (2, 4, 5, 7)
)


@given(st.sampled_from(sorted(SAMPLES)), GARBAGE, st.integers(1, 2))
def test_any_line_of_garbage_is_counted_once(form: str, garbage: str, at: int) -> None:
    lines = SAMPLES[form].splitlines()

    trace = read_trace([*lines[:at], garbage, *lines[at:]], "trace.csv")

    assert (trace.rows, len(trace.arrivals)) == (4, 3)
    assert [(bad.line, bad.text) for bad in trace.bad] == [(at + 1, garbage[:80])]


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_every_row_is_either_an_arrival_or_named(seconds: list[int]) -> None:
    text = "t_s,input_tokens,output_tokens\n" + "".join(f"{one},1,1\n" for one in seconds)

    trace = read(text)

    assert trace.rows == len(seconds) == len(trace.arrivals) + len(trace.bad)
    assert times(trace) == sorted(times(trace))
    if seconds == sorted(seconds):
        assert trace.bad == ()


TRACES = Path(__file__).parents[4] / "shared" / "traces"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("azure_llm_2023_conv", 19_366),
        ("azure_llm_2023_code", 8_819),
        ("mooncake_fast25_conversation", 12_031),
        ("mooncake_fast25_synthetic", 3_993),
        ("burstgpt1_hourly", 1_461),
    ],
)
def test_the_real_traces_have_the_rows_that_their_sources_say(name: str, rows: int) -> None:
    if not TRACES.is_dir():
        pytest.skip("traces are not beside this checkout")
    playback = Playback(input_tokens=LENGTHS, output_tokens=LENGTHS, limit_s=86_400)

    with (TRACES / f"{name}.csv").open() as lines:
        trace = read_trace(lines, name, playback)

    assert (trace.rows, trace.bad) == (rows, ())
    if trace.format != "burstgpt-hourly":
        assert len(trace.arrivals) == rows
