import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from neuronfleet.serving.gateway.exposition import Labels, Source, merged

FIRST = """\
# HELP queue Waiting.
# TYPE queue gauge
queue{proxy="a"} 2
queue{proxy="_hidden"} 9
# HELP asked_total All.
# TYPE asked_total counter
asked_total{proxy="a",code="2xx"} 10
"""
SECOND = """\
# HELP queue Waiting.
# TYPE queue gauge
queue{proxy="a"} 1
queue{proxy="b"} 4
# HELP asked_total All.
# TYPE asked_total counter
asked_total{proxy="a",code="2xx"} 5
"""


def visible(name: str, labels: Labels) -> bool:
    return not labels.get("proxy", "").startswith("_")


def series(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels["proxy"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_gauges_of_one_fleet_in_two_processes_add_up() -> None:
    text = merged([Source(text=FIRST, keep=visible), Source(text=SECOND, keep=visible)])

    assert series(text)[("queue", "a")] == 3
    assert series(text)[("queue", "b")] == 4
    assert "_hidden" not in text
    assert text.count("# TYPE queue gauge") == 1


def test_counters_of_a_process_that_leaves_would_fall_when_it_ends_so_they_are_left_out() -> None:
    leaving = Source(text=FIRST, keep=visible, counters=False)

    text = merged([leaving, Source(text=SECOND, keep=visible)])

    assert series(text)[("asked_total", "a")] == 5
    assert series(text)[("queue", "a")] == 3


@pytest.mark.parametrize("text", ["", "# HELP only heads\n", "no sample at all !\n"])
def test_nothing_usable_is_nothing(text: str) -> None:
    assert merged([Source(text=text, keep=visible)]) == ""


@given(st.floats(), st.floats())
def test_any_value_stays_readable(first: float, second: float) -> None:
    lines = '# TYPE x gauge\nx{proxy="a"} {}\nx{proxy="b"} {}\n'
    values = [repr(value).replace("inf", "Inf").replace("nan", "NaN") for value in (first, second)]
    text = lines.replace("{}", values[0], 1).replace("{}", values[1], 1)

    found = series(merged([Source(text=text, keep=visible)]))

    for name, value in (("a", first), ("b", second)):
        read = found[("x", name)]
        assert read == value or (read != read and value != value)
