"""What the page says of the run: the engine, stale, void, lost, finished, and each fleet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from neuronfleet.serving.local.page.server import start_page

if TYPE_CHECKING:
    from tests.serving.local.page.conftest import Seen

    Look = Callable[..., Awaitable[Seen]]

# One browser for a module: it starts slower than a test runs.
pytestmark = [pytest.mark.peer, pytest.mark.asyncio(loop_scope="module")]

Rich = Callable[..., dict[str, Any]]


async def test_emulated_is_said_at_the_top_and_beside_each_group_of_figures(
    look: Look, rich: Rich
) -> None:
    seen = await look(rich())

    assert await seen.text("#engine") == (
        "emulated: 20 s of fleet time pass in one second; every figure is in fleet time"
    )
    for heading in await seen.page.locator("h3").all_inner_texts():
        assert heading.endswith("emulated")
    for label in await seen.page.locator('[role="img"]').all():
        assert ", emulated, now: " in (await label.get_attribute("aria-label") or "")


async def test_a_real_engine_is_called_real_and_nothing_emulated(look: Look, rich: Rich) -> None:
    state = rich()
    state["engine"], state["time_scale"] = "vllm", 1.0
    seen = await look(state)

    assert await seen.text("#engine") == (
        "real engine: vLLM on CPU; every figure is this machine's, not an accelerator's"
    )
    assert "emulated" not in await seen.text("body")


async def test_stale_metrics_are_a_strip_that_goes_when_they_are_fresh(
    look: Look, rich: Rich
) -> None:
    state = rich()
    state["metrics"] = {"fresh": False, "age_s": 12.0, "source": "gateway"}
    seen = await look(state)
    strip = '[data-strip="stale"]'

    assert await seen.text(strip) == "Metrics stale for 12 s: growth only, no shrinking"
    assert (await seen.colour_of(strip)) != (await seen.colour_of("body"))
    state["metrics"]["age_s"] = None
    await seen.polled()
    assert "for an unknown time: growth only" in await seen.text(strip)
    state["metrics"] = {"fresh": True, "age_s": 1.0, "source": "metrics"}
    await seen.polled()
    assert await seen.page.locator(strip).count() == 0


async def test_a_void_run_names_its_reasons(look: Look, rich: Rich) -> None:
    state = rich()
    state["void"] = {"void": True, "reasons": ["the client fell behind", "a canary failed"]}
    seen = await look(state)

    said = await seen.text('[data-strip="void"]')
    assert said == "This run is void: the client fell behind; a canary failed"


async def test_a_lost_connection_keeps_the_last_picture_and_recovers(
    look: Look, rich: Rich
) -> None:
    seen = await look(rich())
    before = await seen.points("load", "load")
    port = seen.server.port
    await seen.server.close()
    await seen.page.wait_for_selector('#status[data-status="lost"]')

    assert "connection lost (no answer); this is 13:32" in await seen.text("#status")
    assert await seen.points("load", "load") == before
    again = await start_page(lambda: seen.state, port)
    try:
        await seen.page.wait_for_selector('#status[data-status="live"]')
    finally:
        await again.close()
    assert seen.documents == 1


async def test_a_finished_run_is_finished_also_when_its_server_goes(look: Look, rich: Rich) -> None:
    state = rich()
    state["finished"] = True
    seen = await look(state)
    assert await seen.text("#status") == "finished"

    await seen.server.close()
    for _ in range(2):  # when the second poll fails, the first failure has been drawn
        async with seen.page.expect_event("requestfailed"):
            pass
    assert await seen.text("#status") == "finished"


async def test_each_fleet_has_a_section_of_its_own_figures(
    look: Look, rich: Rich, make_fleet: Rich
) -> None:
    state = rich(make_fleet("chat"), make_fleet("batch", busy=1.6))
    state["fleets"][1]["now"].update(load=33.0, queued=9, ttft_p90_ms=14_210.0)
    seen = await look(state)
    lines = '[data-chart="load"] [data-series="load"][data-mark="line"]'
    drawn = [await line.get_attribute("d") for line in await seen.page.locator(lines).all()]

    assert await seen.page.locator("section.fleet").count() == 2
    assert len(set(drawn)) == 2
    second = '[data-fleet="batch"] '
    assert await seen.text(second + '[data-tile="load"] .headline') == "33 of 24 slots"
    latency = await seen.text(second + '[data-tile="latency"] .headline')
    assert latency == "14.2 s above objective 2,000 ms"
    del state["fleets"][1]
    await seen.polled()
    assert await seen.page.locator("section.fleet").count() == 1
    assert seen.problems == []


async def test_the_cost_carries_its_load(look: Look, rich: Rich) -> None:
    seen = await look(rich())

    assert await seen.text('[data-tile="cost"] .headline') == "$2.64 at load 14.2"
    label = await seen.page.locator('[data-chart="million"]').get_attribute("aria-label")
    assert label == "Cost per 1M output tokens, emulated, now: cost $2.64 at load 14.2"


async def test_replicas_say_their_phase_and_for_how_long(look: Look, rich: Rich) -> None:
    seen = await look(rich())
    rows = await seen.page.locator('[data-table="replicas"] tbody tr').all_inner_texts()
    said = [" ".join(row.split()) for row in rows]

    assert said[0] == "chat-1 inf2 serving 12 min 5 of 8 slots"
    assert said[3] == "chat-4 inf2 booting 48 s ? of 8 slots weights: 9.1 of 16.1 GB"


async def test_events_are_newest_first_and_capped(look: Look, rich: Rich) -> None:
    state = rich()
    state["fleets"][0]["events"] = [
        {"at_s": float(i), "kind": "scaled up", "text": f"step {i}", "reason": f"because {i}"}
        for i in range(300)
    ]
    seen = await look(state)
    rows = seen.page.locator('[data-table="events"] tbody tr')

    assert await rows.count() == 40
    assert (
        " ".join((await rows.first.inner_text()).split()) == "4:59 scaled up step 299 because 299"
    )
    assert await seen.text(".events .note") == "40 of 300 events, the newest"


async def test_a_long_name_does_not_widen_the_page(look: Look, rich: Rich) -> None:
    state = rich()
    long = "x" * 120
    state["endpoint"] = f"http://127.0.0.1:8000/{long}"
    fleet = state["fleets"][0]
    fleet["model"] = fleet["replicas"][0]["name"] = fleet["replicas"][3]["detail"] = long
    fleet["events"][0]["text"] = fleet["events"][0]["kind"] = long
    for width in (390, 800, 1280):
        seen = await look(state, width=width)
        assert await seen.page.evaluate("document.documentElement.scrollWidth") == width


async def test_what_a_state_says_is_text_and_never_markup(look: Look, rich: Rich) -> None:
    state = rich()
    evil = "<img src=x onerror=alert(1)>"
    state["name"] = state["fleets"][0]["model"] = state["fleets"][0]["events"][0]["text"] = evil
    seen = await look(state)

    assert await seen.page.locator("img").count() == 0
    assert await seen.text("#name") == evil
    assert seen.problems == []
