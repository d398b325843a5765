"""What is wrong with an input, said so that it can be mended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One wrong field."""

    path: str
    """Where it stands, as `spec.variants[0].maxNumSeqs`."""
    value: object
    """What was given."""
    allowed: str
    """What would do, as `must be in [1, 4096]`."""

    def __str__(self) -> str:
        return f"{self.path} = {self.value}, {self.allowed}"


class SpecError(ValueError):
    """An input that the user has to change; carries every problem found."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    @classmethod
    def of(cls, source: str, problems: list[Problem]) -> "SpecError":
        """One error over all problems of `source`, a line each."""
        lines = [f"{source}: {len(problems)} problem{'s' if len(problems) > 1 else ''}"]
        return cls("\n  ".join(lines + [str(p) for p in problems]), tuple(problems))
