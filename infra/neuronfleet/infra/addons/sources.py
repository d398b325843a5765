"""Files of the repository that stacks carry along: the chart and the rules."""

from pathlib import Path

from neuronfleet.serving.api.problems import SpecError

REPOSITORY = Path(__file__).resolve().parents[4]


def source(path: str) -> Path:
    """A file or folder of the repository.

    Raises:
        SpecError: it is not there, as in an installed package.
    """
    found = REPOSITORY / path
    if not found.exists():
        raise SpecError(f"{path} is not under {REPOSITORY}: the app runs from a checkout")
    return found
