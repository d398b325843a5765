"""The live view in a terminal, drawn from the same document as the page."""

from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_EVENTS = 6


def render(state: dict[str, Any]) -> RenderableType:
    """One frame."""
    parts: list[RenderableType] = [_headline(state)]
    if state["duration_s"]:
        parts.append(ProgressBar(total=state["duration_s"], completed=state["elapsed_s"], width=60))
    if not state["metrics"]["fresh"] and state["metrics"]["age_s"] is not None:
        age = state["metrics"]["age_s"]
        text = f"metrics stale for {age:.0f} s: growth only, no shrinking"
        parts.append(Text(text, style="yellow"))
    if state["void"]["void"]:
        reasons = "; ".join(state["void"]["reasons"])
        parts.append(Text(f"this run is void: {reasons}", style="red"))
    for fleet in state["fleets"]:
        parts += [Text(), *_fleet(fleet, state["engine"])]
    return Group(*parts)


def line(state: dict[str, Any]) -> str:
    """One line for a log, where no terminal is watched."""
    parts = [f"{clock(state['elapsed_s'])} {state['engine']}"]
    for fleet in state["fleets"]:
        now = fleet["now"]
        replicas = now["replicas"]
        parts.append(
            f"{fleet['name']}: load {number(now['load'])} of {now['slots']} slots, "
            f"{number(now['queued'])} queued, {replicas['serving']} serving, "
            f"{replicas['booting']} booting, TTFT p90 {number(now['ttft_p90_ms'])} ms, "
            f"${number(now['usd_per_hour'], 2)}/h"
        )
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """Fleet time as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def number(value: float | None, digits: int = 0) -> str:
    """A figure, or ? where it is unknown."""
    return "?" if value is None else f"{value:,.{digits}f}"


def _headline(state: dict[str, Any]) -> Text:
    text = Text(f"{state['name']}  ", style="bold")
    text.append(f"{clock(state['elapsed_s'])} of fleet time", style="not bold")
    if state["engine"] == "emulated":
        scale = f"{state['time_scale']:g} s of fleet time a second"
        text.append(f"  emulated replicas, {scale}; every figure is in fleet time", style="dim")
    else:
        text.append("  real vLLM on CPU, a tiny random model", style="dim")
    text.append(f"\nendpoint {state['endpoint']}", style="not bold")
    if state["budget"] is not None:
        used = number(state["budget"]["used_usd_per_hour"], 2)
        text.append(f"  budget ${used} of ${state['budget']['usd_per_hour']:.2f}/h")
    return text


def _fleet(fleet: dict[str, Any], engine: str) -> list[RenderableType]:
    now, objective = fleet["now"], fleet["objective"]
    head = Text(fleet["name"], style="bold")
    head.append(f"  {fleet['model']}, {engine}", style="not bold dim")
    figures = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name in ("load", "slots", "queued", "boot/serve/drain", "TTFT p50/p90", "met"):
        figures.add_column(name, justify="right")
    for name in ("tok/s", "$/h", "$/1M out"):
        figures.add_column(name, justify="right")
    replicas = now["replicas"]
    late = now["ttft_p90_ms"] is not None and now["ttft_p90_ms"] > objective["ttft_ms"]
    cost = number(now["usd_per_million_output_tokens"], 2)
    met = "?" if now["attainment"] is None else f"{now['attainment']:.0%}"
    figures.add_row(
        number(now["load"]),
        str(now["slots"]),
        number(now["queued"]),
        f"{replicas['booting']}/{replicas['serving']}/{replicas['draining']}",
        Text(
            f"{number(now['ttft_p50_ms'])}/{number(now['ttft_p90_ms'])} ms",
            style="yellow" if late else "",
        ),
        met,
        number(now["output_tok_per_s"]),
        number(now["usd_per_hour"], 2),
        f"{cost} at load {number(now['load'])}",
    )
    events = [
        Text(f"{clock(one['at_s'])}  {one['text']}  ({one['reason']})", style="dim")
        for one in fleet["events"][-_EVENTS:]
    ]
    return [head, figures, *events]
