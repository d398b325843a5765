"""What settings say, judged at synthesis against what AWS offers: refused, never warned of."""

from datetime import datetime

from neuronfleet.infra.settings.model import Settings
from neuronfleet.infra.settings.rules import (
    access,
    blocks,
    buying,
    fit,
    names,
    network,
    pins,
    quota,
    zones,
)
from neuronfleet.serving.api.problems import Problem, SpecError


def check(settings: Settings, now: datetime) -> list[Problem]:
    """Everything that would fail or could not work, each with its field, value and remedy."""
    return [
        *names.problems(settings),
        *zones.problems(settings),
        *network.problems(settings),
        *access.problems(settings),
        *buying.problems(settings),
        *blocks.problems(settings, now),
        *pins.problems(settings),
        *fit.problems(settings),
        *quota.problems(settings),
    ]


def require(settings: Settings, now: datetime, source: str) -> None:
    """Refuse settings that are not true.

    Raises:
        SpecError: every problem at once.
    """
    problems = check(settings, now)
    if problems:
        raise SpecError.of(source, problems)
