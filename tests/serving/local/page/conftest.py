"""The page served from a state that tests change, seen in a real Chromium."""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from neuronfleet.serving.local.page.server import PageServer, start_page

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STEP_S = 10
COLOURS = """async (picture) => {
  const bytes = Uint8Array.from(atob(picture), (c) => c.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
  canvas.drawImage(bitmap, 0, 0);
  const pixels = canvas.getImageData(0, 0, bitmap.width, bitmap.height).data;
  const counts = {};
  for (let i = 0; i < pixels.length; i += 4) {
    const colour = pixels.slice(i, i + 3).join(',');
    counts[colour] = (counts[colour] ?? 0) + 1;
  }
  return counts;
}"""


VARIANTS: list[dict[str, Any]] = [
    {
        "name": "inf2",
        "instance_type": "inf2.xlarge",
        "ceiling": 8,
        "ceiling_note": "a paper figure",
        "usd_per_hour": 0.7582,
    },
    {
        "name": "trn2",
        "instance_type": "trn2.3xlarge",
        "ceiling": 32,
        "ceiling_note": "",
        "usd_per_hour": None,
    },
]
NOW: dict[str, Any] = {
    "load": 14.2,
    "in_flight": 14,
    "queued": 0,
    "slots": 24,
    "replicas": {"booting": 1, "serving": 3, "draining": 0, "failed": 1},
    "ttft_p50_ms": 412.0,
    "ttft_p90_ms": 812.4,
    "tpot_p50_ms": 41.6,
    "output_tok_per_s": 319.0,
    "usd_per_hour": 3.03,
    "usd_per_million_output_tokens": 2.64,
    "attainment": 0.982,
    "arrivals_per_s": 1.84,
    "refused_per_s": 0.0,
}
OBJECTIVE = {"ttft_ms": 2000, "tpot_ms": 80, "percentile": 90, "attainment": 0.95}


def fleet_of(name: str = "chat", *, points: int = 82, busy: float = 1.0) -> dict[str, Any]:
    """A fleet that grew from one replica to three, overshot its objective twice, and settled."""
    fleet = {
        "name": name,
        "model": "llama-3.1-8b",
        "variants": VARIANTS,
        "objective": OBJECTIVE,
        "now": NOW,
        "series": series_of(points, busy),
        "replicas": replicas_of(name),
        "events": events_of(name),
    }
    return copy.deepcopy(fleet)


def series_of(points: int, busy: float) -> dict[str, Any]:
    times = [float(STEP_S * i) for i in range(points)]
    serving = [1 if i < points * 0.35 else 2 if i < points * 0.6 else 3 for i in range(points)]
    booting = [int(points * 0.2 <= i < points * 0.35 or i > points * 0.93) for i in range(points)]
    draining = [int(points * 0.75 <= i < points * 0.8) for i in range(points)]
    slots = [8 * n for n in serving]
    waves = [math.sin(i / points * math.pi * 0.7) ** 2 for i in range(points)]
    load = [round(busy * (3 + 17 * wave + math.sin(i * 1.7)), 2) for i, wave in enumerate(waves)]
    queued = [round(max(0.0, a - b), 2) for a, b in zip(load, slots, strict=True)]
    p50 = [round(310 + 12 * a + 260 * q, 1) for a, q in zip(load, queued, strict=True)]
    tokens = [round(24 * min(a, b), 1) for a, b in zip(load, slots, strict=True)]
    hourly = [0.76 * (a + b + c) for a, b, c in zip(serving, booting, draining, strict=True)]
    million = [
        round(cost / (rate * 3600) * 1e6, 3) if rate else None
        for cost, rate in zip(hourly, tokens, strict=True)
    ]
    return {
        "t_s": times,
        "load": load,
        "queued": queued,
        "slots": slots,
        "booting": booting,
        "serving": serving,
        "draining": draining,
        "ttft_p50_ms": p50,
        "ttft_p90_ms": [round(1.9 * value, 1) for value in p50],
        "output_tok_per_s": tokens,
        "usd_per_hour": hourly,
        "usd_per_million_output_tokens": million,
    }


def replicas_of(name: str) -> list[dict[str, Any]]:
    return [
        replica(f"{name}-1", "serving", "", 92.0, 5),
        replica(f"{name}-2", "serving", "", 286.0, 5),
        replica(f"{name}-3", "serving", "", 491.0, 4),
        replica(f"{name}-4", "booting", "weights: 9.1 of 16.1 GB", 764.0, None),
        replica(f"{name}-5", "failed", "canary answered wrongly: 'Paris' expected", 640.0, 0),
    ]


def events_of(name: str) -> list[dict[str, Any]]:
    return [
        event(0.0, "started", "1 replica of inf2", "the least that the spec allows"),
        event(164.0, "scaled up", "1 to 2 replicas", "SlotsNeeded: load 11.6 needs 15 slots"),
        event(286.0, "ready", f"{name}-2 serves after a boot of 122 s", None),
        event(372.0, "scaled up", "2 to 3 replicas", "SlotsNeeded: load 18.9 needs 24 slots"),
        event(491.0, "ready", f"{name}-3 serves after a boot of 119 s", None),
        event(640.0, "failed", f"{name}-5 is taken out", "its canary was answered wrongly"),
        event(764.0, "scaled up", f"{name}-4 replaces {name}-5", "BelowMinimum"),
    ]


def replica(
    name: str, phase: str, detail: str, since_s: float, in_flight: int | None
) -> dict[str, Any]:
    return {
        "name": name,
        "variant": "inf2",
        "phase": phase,
        "detail": detail,
        "since_s": since_s,
        "in_flight": in_flight,
        "ceiling": 8,
    }


def event(at_s: float, kind: str, text: str, reason: str | None) -> dict[str, Any]:
    return {"at_s": at_s, "kind": kind, "text": text, "reason": reason}


def state_of(*fleets: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "demo",
        "engine": "emulated",
        "time_scale": 20.0,
        "elapsed_s": 812.0,
        "duration_s": 3600.0,
        "finished": False,
        "void": {"void": False, "reasons": []},
        "metrics": {"fresh": True, "age_s": 2.0, "source": "metrics"},
        "endpoint": "http://127.0.0.1:8000/v1",
        "budget": {"usd_per_hour": 4.0, "used_usd_per_hour": 3.03},
        "fleets": list(fleets or (fleet_of(),)),
    }


def unknown_fleet() -> dict[str, Any]:
    """A fleet of which nothing has been read."""
    fleet = fleet_of()
    fleet["now"] = dict.fromkeys(fleet["now"])
    fleet["now"]["replicas"] = dict.fromkeys(("booting", "serving", "draining", "failed"))
    fleet["series"] = {key: [] for key in fleet["series"]}
    fleet["replicas"], fleet["events"] = [], []
    return fleet


@dataclass(slots=True, kw_only=True)
class Seen:
    """A page in a browser, the state that feeds it, and what went wrong in it."""

    page: Page
    server: PageServer
    state: dict[str, Any]
    """Changed in place by a test, and read by the page at its next poll."""
    scratch: Page
    problems: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    documents: int = 0

    @property
    def fleet(self) -> dict[str, Any]:
        first: dict[str, Any] = self.state["fleets"][0]
        return first

    def watch(self) -> None:
        """Note what the page complains of and whom it asks."""
        self.page.on("console", lambda said: self.problems.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url, request.resource_type))

    def _asked(self, url: str, kind: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "data":
            self.hosts.add(parts.netloc)
        self.documents += kind == "document"

    async def polled(self) -> None:
        """Wait until a poll that began after this call has been drawn."""
        for _ in range(2):
            async with self.page.expect_response("**/api/state") as answer:
                pass
            await (await answer.value).finished()
        await self.page.evaluate("new Promise((done) => requestAnimationFrame(() => done()))")

    async def path(self, chart: str, series: str, mark: str) -> str:
        picked = f'[data-chart="{chart}"] [data-series="{series}"][data-mark="{mark}"]'
        return await self.page.locator(picked).first.get_attribute("d") or ""

    async def points(self, chart: str, series: str, mark: str = "line") -> list[list[float]]:
        """Every point that a path is drawn through, in the chart's pixels."""
        path = await self.path(chart, series, mark)
        pairs = path.replace("Z", "").replace("M", " ").replace("L", " ").split()
        return [[float(number) for number in pair.split(",")] for pair in pairs]

    async def text(self, selector: str) -> str:
        return " ".join((await self.page.locator(selector).first.inner_text()).split())

    async def colours(self, selector: str) -> dict[tuple[int, ...], int]:
        """How many pixels of each colour an element shows."""
        picture = await self.page.locator(selector).first.screenshot()
        counts = await self.scratch.evaluate(COLOURS, base64.b64encode(picture).decode())
        return {tuple(map(int, colour.split(","))): n for colour, n in counts.items()}

    async def colour_of(self, selector: str, name: str = "background-color") -> tuple[int, ...]:
        script = "(node, name) => getComputedStyle(node).getPropertyValue(name)"
        said = await self.page.locator(selector).first.evaluate(script, name)
        return tuple(int(part) for part in said[said.index("(") + 1 : -1].split(",")[:3])


@pytest.fixture
def rich() -> Callable[..., dict[str, Any]]:
    """Makes a state: of the fleets given, or of one that has lived through much."""
    return lambda *fleets: copy.deepcopy(state_of(*fleets))


@pytest.fixture
def make_fleet() -> Callable[..., dict[str, Any]]:
    return fleet_of


@pytest.fixture
def unknown() -> dict[str, Any]:
    return unknown_fleet()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def look(browser: Browser) -> AsyncIterator[Callable[..., Awaitable[Seen]]]:
    """Opens the page of a state at a width and in a colour scheme."""
    async with AsyncExitStack() as stack:

        async def open_page(
            state: dict[str, Any], *, width: int = 1280, scheme: Any = "light"
        ) -> Seen:
            server = await start_page(lambda: state, 0)
            stack.push_async_callback(server.close)
            size: Any = {"width": width, "height": 900}
            context = await browser.new_context(viewport=size, color_scheme=scheme)
            stack.push_async_callback(context.close)
            context.set_default_timeout(10_000)
            scratch = await context.new_page()
            seen = Seen(page=await context.new_page(), server=server, state=state, scratch=scratch)
            seen.watch()
            await seen.page.goto(server.url)
            await seen.page.wait_for_selector('#status:not([data-status="waiting"])')
            return seen

        yield open_page
