"""Capacity that ends at a known moment: left ahead of it, so that no stream is cut."""

from neuronfleet.serving.controller.view import View

_MARGIN_S = 60.0


def _ends_s(view: View, variant: str) -> float | None:
    found = next((v for v in view.fleet.variants if v.name == variant), None)
    if found is None or found.reservation is None or found.reservation.ends_at is None:
        return None
    return found.reservation.ends_at.timestamp()


def closing(view: View, variant: str, now: float) -> bool:
    """Whether replacements have to boot now: one P90 boot and one drain before the end."""
    ends = _ends_s(view, variant)
    if ends is None:
        return False
    boot = max(boots.p90_s for boots in view.boots.values())
    return now >= ends - view.fleet.drain_s - boot - _MARGIN_S


def closed(view: View, variant: str, now: float) -> bool:
    """Whether its replicas have to drain now, replaced or not."""
    ends = _ends_s(view, variant)
    return ends is not None and now >= ends - view.fleet.drain_s - _MARGIN_S
