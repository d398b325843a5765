"""What a check says."""

from dataclasses import dataclass, replace
from enum import StrEnum

from neuronfleet.serving.controller.plugin.reader import Unseen


class Level(StrEnum):
    """How bad a finding is, the mildest first."""

    OK = "ok"
    WARN = "warn"
    """Not as it should be, or unknown; the fleet may well serve."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    check: str = ""
    """Which check found it."""
    level: Level
    says: str
    """What is so, with figures."""
    do: str | None = None
    """What to do about it; None where nothing is to be done."""

    def of(self, check: str) -> "Finding":
        """The same, of this check."""
        return replace(self, check=check)


def ok(says: str) -> Finding:
    """All is well."""
    return Finding(level=Level.OK, says=says)


def warn(says: str, do: str) -> Finding:
    """Something to look at."""
    return Finding(level=Level.WARN, says=says, do=do)


def fail(says: str, do: str) -> Finding:
    """Something to mend."""
    return Finding(level=Level.FAIL, says=says, do=do)


def unknown(seen: Unseen) -> Finding:
    """A check that could not look."""
    return warn(str(seen), "run the doctor with rights to read this, or look yourself")


def worst(findings: list[Finding]) -> Level:
    """The worst level; ok where nothing was found."""
    return max((one.level for one in findings), key=list(Level).index, default=Level.OK)
