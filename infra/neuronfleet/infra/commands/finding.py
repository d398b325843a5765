"""What a look at the account found: fine, would fail, or unknown; unknown is never fine."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a thing stands before a deployment."""

    FINE = "fine"
    FAILS = "would fail"
    UNKNOWN = "unknown"
    """AWS did not say: no permission, no credentials, no network."""
    NOTE = "note"
    """Nothing that a deployment depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    """As `quota` or `reservation`."""
    subject: str
    """Which one, by its path in the settings or its name."""
    verdict: Verdict
    said: str
    """What was found, and what would do where it fails."""


def fine(what: str, subject: str, said: str) -> Finding:
    """A thing that is as it must be."""
    return Finding(what=what, subject=subject, verdict=Verdict.FINE, said=said)


def fails(what: str, subject: str, said: str) -> Finding:
    """A thing for which a deployment would fail."""
    return Finding(what=what, subject=subject, verdict=Verdict.FAILS, said=said)


def unknown(what: str, subject: str, said: str) -> Finding:
    """A thing that could not be found out."""
    return Finding(what=what, subject=subject, verdict=Verdict.UNKNOWN, said=said)


def note(what: str, subject: str, said: str) -> Finding:
    """A thing worth knowing."""
    return Finding(what=what, subject=subject, verdict=Verdict.NOTE, said=said)
