"""`neuronfleet infra cost`: dollars a month of a settings file, idle and at its maximum."""

from typing import Any

from neuronfleet.infra.commands import lines, pool_lines, tariff
from neuronfleet.infra.commands.bill import Bill, Line, Total
from neuronfleet.infra.settings.model import Settings
from neuronfleet.serving.api.prices import PriceCatalog


def cost(settings: Settings, catalog: PriceCatalog) -> Bill:
    """A month's bill, stack by stack; nothing is asked of AWS."""
    found = list(lines.shared(settings))
    for pool in settings.pools:
        found += pool_lines.of_pool(settings, pool, catalog)
    order = {stack: at for at, stack in enumerate(dict.fromkeys(line.stack for line in found))}
    return Bill(
        region=settings.region, lines=tuple(sorted(found, key=lambda line: order[line.stack]))
    )


def document(bill: Bill, catalog: PriceCatalog) -> dict[str, Any]:
    """The bill as docs/schemas/infra-cost.json describes it; null is unknown."""
    return {
        "region": bill.region,
        "prices_dated": {
            "nodes": catalog.dated.isoformat(),
            "services": tariff.dated().isoformat(),
        },
        "total": _pair(bill.idle(), bill.most()),
        "stacks": {
            stack: _pair(bill.idle(stack=stack), bill.most(stack=stack)) for stack in bill.stacks()
        },
        "pools": {pool: _pair(bill.idle(pool=pool), bill.most(pool=pool)) for pool in bill.pools()},
        "lines": [_line(line) for line in bill.lines],
    }


def _pair(idle: Total, most: Total) -> dict[str, Any]:
    return {"idle": _total(idle), "most": _total(most)}


def _total(total: Total) -> dict[str, Any]:
    return {
        "usd_per_month": round(total.usd, 2),
        "at_least": bool(total.unknown),
        "unknown": list(total.unknown),
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "stack": line.stack,
        "pool": line.pool,
        "what": line.what,
        "unit": line.unit,
        "usd_per_unit": line.usd,
        "idle_units": line.idle,
        "most_units": line.most,
        "idle_usd_per_month": _round(line.idle_usd),
        "most_usd_per_month": _round(line.most_usd),
        "source": line.source,
    }


def _round(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
