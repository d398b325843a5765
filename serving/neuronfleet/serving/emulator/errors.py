"""Errors as vLLM answers them: {"error": {"message", "type", "param", "code"}}."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class ApiError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, object]:
        """The JSON that the client gets."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }


def bad_request(message: str, param: str | None = None, value: object = None) -> ApiError:
    """A value out of range; vLLM repeats the parameter in the message."""
    if param is not None:
        shown = "" if value is None else f", value={value}"
        message = f"{message} (parameter={param}{shown})"
    return ApiError(400, "BadRequestError", message, param)


def unknown_model(name: str, known: Sequence[str]) -> ApiError:
    """A model that this replica does not serve."""
    aliases = ", ".join(known)
    message = f"The model `{name}` does not exist. Valid aliases: {aliases}."
    return ApiError(404, "NotFoundError", message, "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """A field of the wrong type, as pydantic reports it."""

    kind: str
    loc: str
    message: str
    value: object

    def __str__(self) -> str:
        shown = {"type": self.kind, "loc": self.loc, "msg": self.message, "input": _shown(self)}
        return f"  {shown}"


def _shown(flaw: Flaw) -> str:
    if isinstance(flaw.value, list):
        return f"<list of {len(flaw.value)} items>"
    if isinstance(flaw.value, Mapping):
        return f"<dict of {len(flaw.value)} items>"
    return str(flaw.value)


def invalid(flaws: Sequence[Flaw]) -> ApiError:
    """All flaws of a body in one answer; `param` names the first."""
    lines = [f"{len(flaws)} validation error{'s' if len(flaws) > 1 else ''}:"]
    lines += [str(flaw) for flaw in flaws]
    return ApiError(400, "Bad Request", "\n".join(lines), flaws[0].loc)
