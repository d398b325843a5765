"""`top` as a person reads it, and as JSON."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from neuronfleet.serving.controller.plugin import console
from neuronfleet.serving.controller.plugin.top.rows import Row, Top
from neuronfleet.serving.controller.plugin.words import UNKNOWN, dollars, number, span

_RIGHT = ("SLOTS", "TOK/S", "$/H", "$/1M@LOAD")
_SUFFIX = 5
"""Characters at a pod name's end that Kubernetes makes unique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What is shortened so that a table fits a terminal."""

    domain: bool = False
    """Nodes by their first label."""
    prefix: bool = False
    """Replicas without fleet and variant, which stand beside."""
    name: bool = False
    """Replicas by their last characters."""
    node: bool = False
    """No nodes."""


_CUTS = (
    _Cut(),
    _Cut(domain=True),
    _Cut(domain=True, prefix=True),
    _Cut(domain=True, name=True),
    _Cut(name=True, node=True),
)


def show(top: Top, out: Console) -> None:
    """Print one fleet; the first of the ever shorter tables that fits."""
    out.print(f"{top.namespace}/{top.name}: {_load(top)}", style="bold")
    if not top.rows:
        out.print("no replicas")
        return
    tables = [_table(top, cut) for cut in _CUTS]
    fits = [made for made in tables if console.needs(made, out) <= out.width]
    console.put(out, fits[0] if fits else tables[-1])


def _load(top: Top) -> str:
    if top.load is None:
        known = "no sample" if top.sample_age_s is None else f"last sample {span(top.sample_age_s)}"
        why = f"{known} old: stale" if top.stale else known
        return f"load {UNKNOWN} ({why}), {number(top.ceiling)} slots"
    return (
        f"load {number(top.load)}, {number(top.queued)} of it queued, {number(top.ceiling)} slots"
    )


def _table(top: Top, cut: _Cut) -> Table:
    nodes = () if cut.node else ("NODE",)
    made = console.table("REPLICA", "VARIANT", *nodes, "PHASE", *_RIGHT, "FIGURES", right=_RIGHT)
    for row in top.rows:
        made.add_row(
            _replica(row, top, cut),
            row.variant,
            *(() if cut.node else (_node(row, cut),)),
            str(row.phase),
            f"{number(row.held)}/{number(row.ceiling)}" if _known(row) else UNKNOWN,
            number(row.tokens_per_s, ",.0f"),
            dollars(row.usd_per_hour),
            _per_million(row),
            row.figures,
        )
    made.add_row(
        "total",
        "",
        *(() if cut.node else ("",)),
        "",
        f"{number(top.load)}/{number(top.ceiling)}" if top.load is not None else UNKNOWN,
        number(top.tokens_per_s, ",.0f"),
        dollars(top.usd_per_hour),
        _per_million(top),
        top.figures,
    )
    return made


def _known(row: Row) -> bool:
    return row.held is not None or row.ceiling is not None


def _per_million(one: Row | Top) -> str:
    if one.tokens_per_s == 0 and one.usd_per_hour is not None:
        return "no tokens"
    return dollars(one.usd_per_million, 3)


def _replica(row: Row, top: Top, cut: _Cut) -> str:
    if cut.name:
        return f"..{row.replica[-_SUFFIX:]}"
    prefix = f"{top.name}-{row.variant}-"
    if cut.prefix and row.replica.startswith(prefix):
        return f"..{row.replica[len(prefix) :]}"
    return row.replica


def _node(row: Row, cut: _Cut) -> str:
    if row.node is None:
        return "none"
    return row.node.partition(".")[0] if cut.domain else row.node


def document(top: Top) -> dict[str, Any]:
    """One fleet of the JSON that docs/schemas/kubectl-top.json describes; null is unknown."""
    return {
        "namespace": top.namespace,
        "name": top.name,
        "load": top.load,
        "queued": top.queued,
        "ceiling": top.ceiling,
        "sample_age_seconds": top.sample_age_s,
        "stale": top.stale,
        **_figures(top, top.load),
        "replicas": [
            {
                "replica": row.replica,
                "variant": row.variant,
                "node": row.node,
                "phase": str(row.phase),
                "held": row.held,
                "ceiling": row.ceiling,
                **_figures(row, row.held),
            }
            for row in top.rows
        ],
    }


def _figures(one: Row | Top, load: float | None) -> dict[str, Any]:
    return {
        "output_tokens_per_second": one.tokens_per_s,
        "usd_per_hour": one.usd_per_hour,
        "usd_per_million_output_tokens": one.usd_per_million,
        "at_load": load,
        "figures": one.figures,
    }
