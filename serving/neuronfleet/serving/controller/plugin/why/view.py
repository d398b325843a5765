"""`why` as a person reads it."""

from datetime import UTC

from rich.console import Console
from rich.padding import Padding

from neuronfleet.serving.api.status import DecisionInputs, StatusCondition
from neuronfleet.serving.controller.plugin import console
from neuronfleet.serving.controller.plugin.why.explain import Why, before, load, total
from neuronfleet.serving.controller.plugin.why.reasons import sentence
from neuronfleet.serving.controller.plugin.words import UNKNOWN, ago, dollars, number, span

_INDENT = 2


def show(why: Why, out: Console) -> None:
    """Print it."""
    status = why.status
    counts = (
        f"{number(status.desired)} desired, {number(status.serving)} serving, "
        f"{number(status.booting)} booting, {number(status.draining)} draining"
    )
    out.print(f"{why.namespace}/{why.name}: {counts}", style="bold")
    out.print(
        f"load {number(status.load)}, {number(status.ceiling)} slots serving, "
        f"$/h {dollars(status.usd_per_hour)}"
    )
    if why.mode != "Active":
        out.print(f"mode {why.mode}: decisions are published and not carried out", style="yellow")
    if why.behind:
        out.print(why.behind, style="yellow")
    out.print(f"\n{why.reason or UNKNOWN}: {sentence(why.reason)}")
    _variants(why, out)
    _inputs(why, out)
    _limits(why, out)
    _rollout(why, out)
    _decisions(why, out)


def _head(text: str, out: Console) -> None:
    out.print(f"\n{text}", style="bold")


def _line(text: str, out: Console) -> None:
    console.put(out, Padding(text, (0, 0, 0, _INDENT), expand=False))


def _variants(why: Why, out: Console) -> None:
    if not why.status.variants:
        return
    counts = ("DESIRED", "SERVING", "BOOTING", "DRAINING", "CEILING", "$/H", "BOOT P90")
    made = console.table("VARIANT", *counts, right=counts)
    for one in why.status.variants:
        made.add_row(
            one.name,
            number(one.desired),
            number(one.serving),
            number(one.booting),
            number(one.draining),
            number(one.ceiling),
            dollars(one.usd_per_hour),
            span(one.boot_p90_seconds),
        )
    out.print()
    console.put(out, made)
    for one in why.status.variants:
        if one.limited:
            _line(f"{one.name} cannot grow: {one.limited}", out)


def _inputs(why: Why, out: Console) -> None:
    last = why.status.last_decision
    when = "unknown" if last is None else ago(last.at, why.now)
    _head(f"Inputs of the last decision ({when})", out)
    inputs = (last.inputs if last else None) or DecisionInputs()
    rows = (
        ("load", number(inputs.load, unit="sequences (peak in flight, queued, refused)")),
        ("slots needed", number(inputs.slots_needed, unit="slots")),
        ("arrivals", number(inputs.arrivals_per_second, unit="requests/s")),
        ("rate per replica", number(inputs.rate_per_replica, unit="requests/s")),
        ("replicas before", number(inputs.current)),
        ("sample age", number(inputs.sample_age_seconds, unit="s")),
        ("origin", inputs.origin or UNKNOWN),
        ("window", number(inputs.window_seconds, unit="s")),
    )
    for name, value in rows:
        _line(f"{name:<17} {value}", out)


def _limits(why: Why, out: Console) -> None:
    _head("What limits it", out)
    for one in why.limits:
        _line(_condition(one, why.now), out)
    if not why.limits:
        known = "nothing" if why.status.conditions else UNKNOWN
        _line(known, out)


def _condition(one: StatusCondition, now: float) -> str:
    since = ago(one.last_transition_time, now)
    return f"{one.type}={one.status} {one.reason or UNKNOWN} ({since}): {one.message or UNKNOWN}"


def _rollout(why: Why, out: Console) -> None:
    _head("Rollout", out)
    one = why.status.rollout
    if one is None:
        _line("none" if why.status.observed_generation else UNKNOWN, out)
        return
    revisions = f"{one.from_ or UNKNOWN} to {one.to or UNKNOWN}"
    since = f"began {ago(one.started_at, why.now)}"
    _line(f"{one.state}: {one.variant or UNKNOWN}, revision {revisions}, {since}", out)
    _line(one.reason or UNKNOWN, out)


def _decisions(why: Why, out: Console) -> None:
    _head("Last decisions, newest first", out)
    if not why.status.decisions:
        _line(UNKNOWN, out)
        return
    made = console.table(
        "TIME", "AGE", "FROM", "TO", "REASON", "LOAD", right=("FROM", "TO", "LOAD")
    )
    for one in reversed(why.status.decisions):
        made.add_row(
            f"{one.at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}",
            span(why.now - one.at.timestamp()),
            number(before(one)),
            number(total(one)),
            one.reason,
            number(load(one)),
        )
    console.put(out, Padding(made, (0, 0, 0, _INDENT), expand=False))
