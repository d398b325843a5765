"""How figures are shown: unknown is a word and never 0."""

from datetime import datetime

UNKNOWN = "unknown"


def number(value: float | None, form: str = "g", unit: str = "") -> str:
    """A figure in a format, with its unit behind it."""
    if value is None:
        return UNKNOWN
    return f"{value:{form}} {unit}" if unit else f"{value:{form}}"


def dollars(value: float | None, digits: int = 2) -> str:
    """Dollars without the sign, which stands in the column's head."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def span(seconds: float | None) -> str:
    """A time as `kubectl get` shows ages: 42s, 7m, 3h, 5d."""
    if seconds is None:
        return UNKNOWN
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def ago(moment: datetime | None, now: float) -> str:
    """How long ago a moment was; `now` in Unix seconds."""
    return UNKNOWN if moment is None else f"{span(now - moment.timestamp())} ago"


def stamp(moment: datetime | None) -> str | None:
    """A moment for JSON."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
