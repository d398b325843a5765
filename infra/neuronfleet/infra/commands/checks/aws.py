"""How AWS is asked: one client a service, and errors that say what is missing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from neuronfleet.infra.commands.finding import Finding, unknown

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


class Aws(Protocol):
    """Clients of one account and region."""

    def client(self, service: str) -> Any:
        """The client of a service, as boto3 makes it."""
        ...


def asked(what: str, subject: str, question: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What a question finds; one unknown where AWS does not answer it."""
    try:
        yield from question()
    except ClientError as wrong:
        yield unknown(what, subject, _why(wrong))
    except BotoCoreError as wrong:
        yield unknown(what, subject, f"AWS was not asked: {wrong}")


def code_of(wrong: ClientError) -> str:
    """The code of an error, as AccessDenied."""
    return str(wrong.response.get("Error", {}).get("Code", ""))


def pages(client: Any, operation: str, result: str, **request: Any) -> list[dict[str, Any]]:
    """All items of an operation that answers in pages."""
    paginator = client.get_paginator(operation)
    return [item for page in paginator.paginate(**request) for item in page.get(result, ())]


def _why(wrong: ClientError) -> str:
    code = code_of(wrong)
    if code in _DENIED:
        return f"no permission for {wrong.operation_name}"
    message = wrong.response.get("Error", {}).get("Message", "")
    return f"{wrong.operation_name} answered {code}: {message}"
