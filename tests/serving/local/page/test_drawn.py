"""What a person sees: marks, gaps, words and colours, in a real Chromium."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.serving.local.page.conftest import Seen

    Look = Callable[..., Awaitable[Seen]]

# One browser for a module: it starts slower than a test runs.
pytestmark = [pytest.mark.peer, pytest.mark.asyncio(loop_scope="module")]

Rich = Callable[..., dict[str, Any]]
CHARTS = ("load", "replicas", "ttft", "tokens", "hour", "million")
LINES = {
    "load": "load",
    "ttft": "ttft_p90_ms",
    "tokens": "output_tok_per_s",
    "million": "usd_per_million_output_tokens",
}
WIDEST = "document.documentElement.scrollWidth"


def height(points: list[list[float]]) -> float:
    return max(y for _, y in points) - min(y for _, y in points)


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """The WCAG contrast of two colours."""

    def light(colour: tuple[int, ...]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("width", [390, 1280])
async def test_every_chart_is_drawn_inside_the_page(look: Look, rich: Rich, width: int) -> None:
    seen = await look(rich(), width=width)

    for chart in CHARTS:
        marks = seen.page.locator(f'[data-chart="{chart}"] path')
        picture = seen.page.locator(f'[data-chart="{chart}"]')
        frame = await picture.bounding_box()
        assert frame is not None
        assert frame["width"] > 250
        assert frame["x"] >= 0
        assert frame["x"] + frame["width"] <= width
        assert await picture.get_attribute("role") == "img"
        for mark in await marks.all():
            box = await mark.bounding_box()
            assert box is not None
            assert box["width"] > 10, chart
            assert box["height"] > 10, chart
            assert box["x"] >= frame["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]
            assert box["y"] >= frame["y"]
            assert box["y"] + box["height"] <= frame["y"] + frame["height"]
    assert await seen.page.evaluate(WIDEST) == width
    assert seen.problems == []


async def test_a_line_has_a_point_for_each_reading_at_the_height_of_its_value(
    look: Look, rich: Rich
) -> None:
    seen = await look(rich())
    series = seen.fleet["series"]

    for chart, key in LINES.items():
        points = await seen.points(chart, key)
        assert len(points) == len(series["t_s"]), chart
        lowest = series[key].index(min(series[key]))
        highest = series[key].index(max(series[key]))
        assert points[lowest][1] == max(y for _, y in points)
        assert points[highest][1] == min(y for _, y in points)
        assert points == sorted(points, key=lambda point: point[0])


async def test_slots_are_a_step_line_over_the_load(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    slots = await seen.points("load", "slots")
    steps = [a for a, b in pairwise(slots) if a[0] == b[0] and a[1] != b[1]]
    slanted = [a for a, b in pairwise(slots) if a[0] != b[0] and a[1] != b[1]]

    assert len(steps) == 2
    assert slanted == []
    assert height(await seen.points("load", "queued", "fill")) > 0


async def test_the_phases_are_stacked(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    serving = await seen.points("replicas", "serving", "fill")
    booting = await seen.points("replicas", "booting", "fill")
    one = height(serving) / 3

    assert min(y for _, y in booting) == pytest.approx(min(y for _, y in serving) - one, abs=0.2)


async def test_the_objective_is_a_dashed_rule_across_the_chart_at_its_value(
    look: Look, rich: Rich
) -> None:
    seen = await look(rich())
    rule = seen.page.locator('[data-chart="ttft"] .rules line')
    before = float(await rule.get_attribute("y1") or "nan")
    box = await rule.bounding_box()

    assert box is not None
    assert box["width"] > 250
    assert await rule.evaluate("(node) => getComputedStyle(node).strokeDasharray") != "none"
    assert "objective 2,000 ms" in await seen.text('figure:has([data-chart="ttft"]) .legend')

    seen.fleet["objective"]["ttft_ms"] = 1000
    await seen.polled()
    assert float(await rule.get_attribute("y1") or "nan") > before + 20


async def test_the_marks_colour_pixels_of_the_chart(look: Look, rich: Rich) -> None:
    state = rich()
    seen = await look(state)
    drawn = {chart: await seen.colours(f'[data-chart="{chart}"]') for chart in CHARTS}
    panel = await seen.colour_of(".chart")
    load = await seen.colour_of('[data-chart="load"] .line.load', "stroke")
    for key, values in state["fleets"][0]["series"].items():
        if key != "t_s":
            values[:] = [None] * len(values)
    await seen.polled()

    for chart in CHARTS:
        bare = await seen.colours(f'[data-chart="{chart}"]')
        painted = sum(drawn[chart].values()) - drawn[chart][panel]
        assert painted > 1.2 * (sum(bare.values()) - bare[panel]), chart
    assert drawn["load"].get(load, 0) > 50
    assert (await seen.colours('[data-chart="load"]')).get(load, 0) == 0


async def test_what_changes_is_drawn_without_a_reload(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    before = await seen.points("load", "load")
    label = seen.page.locator('[data-chart="load"]')
    assert "load 14.2" in (await label.get_attribute("aria-label") or "")
    await seen.page.evaluate("document.querySelector('main').dataset.kept = 'yes'")

    series = seen.fleet["series"]
    for values in series.values():
        values.append(values[-1])
    series["t_s"][-1] += 10
    series["load"][-1] = 29.0
    seen.fleet["now"]["load"] = 29.0
    seen.fleet["events"].append(
        {"at_s": 820.0, "kind": "scaled up", "text": "3 to 4 replicas", "reason": "SlotsNeeded"}
    )
    seen.state["elapsed_s"] = 822.0
    await seen.polled()

    after = await seen.points("load", "load")
    assert len(after) == len(before) + 1
    assert height(after) > 1.3 * height(before)
    assert await seen.text('[data-tile="load"] .headline') == "29 of 24 slots"
    assert "load 29" in (await label.get_attribute("aria-label") or "")
    assert "3 to 4 replicas" in await seen.text('[data-table="events"] tbody tr')
    assert "13 min 42 s" in await seen.text("#facts")
    assert await seen.page.locator("main").get_attribute("data-kept") == "yes"
    assert seen.documents == 1


async def test_the_page_asks_nobody_but_its_own_server(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    await seen.polled()

    assert seen.hosts == {f"127.0.0.1:{seen.server.port}"}
    assert seen.problems == []


async def test_the_unknown_is_a_question_mark_and_never_a_zero(
    look: Look, rich: Rich, unknown: dict[str, Any]
) -> None:
    seen = await look(rich(unknown))

    for tile in ("load", "replicas", "latency", "output", "cost"):
        values = [
            await seen.text(f'[data-tile="{tile}"] .headline b'),
            *await seen.page.locator(f'[data-tile="{tile}"] dd').all_inner_texts(),
        ]
        assert set(values) == {"?"}, tile
    assert await seen.text('[data-tile="cost"] .headline') == "? at load ?"
    for chart in CHARTS:
        for mark in await seen.page.locator(f'[data-chart="{chart}"] .marks path').all():
            assert await mark.get_attribute("d") == ""
    assert "nothing known yet" in await seen.text('figure:has([data-chart="load"])')
    assert seen.problems == []


async def test_an_unknown_reading_is_a_gap(look: Look, rich: Rich) -> None:
    state = rich()
    series = state["fleets"][0]["series"]
    for key in ("load", "serving", "slots"):
        series[key][30:40] = [None] * 10
    series["load"][35] = 12.0
    seen = await look(state)
    path = await seen.path("load", "load", "line")
    ends = [part.replace("L", " ").split()[-1] for part in path.split("M")[1:]]

    assert path.count("M") == 3  # before, the lone reading, after
    assert len(await seen.points("load", "load")) == len(series["t_s"]) - 9 + 1
    assert len(set(ends)) == 3
    assert (await seen.path("load", "slots", "line")).count("M") == 2
    assert (await seen.path("replicas", "serving", "fill")).count("Z") == 2
    # What stands on the unknown has no known height either.
    assert (await seen.path("replicas", "booting", "fill")).count("Z") == 2


async def test_a_long_series_is_thinned_and_keeps_a_spike_of_one_reading(
    look: Look, rich: Rich, make_fleet: Rich
) -> None:
    state = rich(make_fleet(points=2000))
    state["elapsed_s"] = 19_990.0
    series = state["fleets"][0]["series"]
    series["load"] = [10 + math.sin(i) for i in range(2000)]
    series["load"][1234] = 60.0
    seen = await look(state)
    points = await seen.points("load", "load")
    top = min(points, key=lambda point: point[1])

    assert len(points) < 1500
    assert sum(y < top[1] + 50 for _, y in points) == 1
    assert top[0] == pytest.approx(points[-1][0] * 1234 / 2000, rel=0.1)

    script = """async () => {
      const found = await new Promise((done) => {
        const seen = [];
        new PerformanceObserver((list) => seen.push(...list.getEntries().map((e) => e.duration)))
          .observe({ type: 'longtask' });
        setTimeout(() => done(seen), 2500);
      });
      return Math.max(0, ...found);
    }"""
    assert await seen.page.evaluate(script) < 400


async def test_the_pointer_reads_the_values_of_that_moment(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    legend = 'figure:has([data-chart="million"]) figcaption'
    series = seen.fleet["series"]
    points = await seen.points("load", "load")
    box = await seen.page.locator('[data-chart="load"]').bounding_box()
    assert box is not None
    assert "$2.64 at load 14.2" in await seen.text(legend)

    await seen.page.mouse.move(box["x"] + points[20][0], box["y"] + 80)
    said = await seen.text(legend)

    assert "at 3:20" in said
    assert f"at load {round(series['load'][20], 1):g}" in said
    assert await seen.page.locator(".cursor line").count() == len(CHARTS)


@pytest.mark.parametrize("width", [390, 1280])
async def test_dark_and_light_differ_and_both_are_legible(
    look: Look, rich: Rich, width: int
) -> None:
    state = rich()
    pages = {}
    for scheme in ("light", "dark"):
        seen = await look(state, width=width, scheme=scheme)
        page, panel = await seen.colour_of("body"), await seen.colour_of(".tile")
        pages[scheme] = page
        for selector in ("dt", "dd.warn", ".headline b", ".tag", ".legend b", "td.detail"):
            assert contrast(await seen.colour_of(selector, "color"), panel) >= 4.5, selector
        for selector in ("#engine", ".about", "#facts dt", "h2"):
            assert contrast(await seen.colour_of(selector, "color"), page) >= 4.5, selector
        assert contrast(await seen.colour_of("svg text.value", "fill"), panel) >= 4.5
        for line in ("load", "slots", "ttft_p50_ms", "usd_per_hour"):
            assert contrast(await seen.colour_of(f".line.{line}", "stroke"), panel) >= 3, line
        ground = max((await seen.colours("header")).items(), key=lambda pair: pair[1])[0]
        assert ground == page

    assert sum(pages["light"]) > 3 * 200
    assert sum(pages["dark"]) < 3 * 50
