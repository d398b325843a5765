"""The gateway's refusals in OpenAI's error shape, as HAProxy's configuration wants them."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refusal."""

    status: int
    kind: str
    """The `type` of OpenAI's error object."""
    message: str
    """What the client reads; `%[...]` in it is filled in by HAProxy."""
    param: str | None = None
    """The parameter at fault, if it is one."""
    header: str = ""
    """A further header, as HAProxy's `name value`."""


MODEL_MISSING = Refusal(
    status=400,
    kind="BadRequestError",
    message="The body must be a JSON object with `model`, a string.",
    param="model",
)
MANY_SEQUENCES = Refusal(
    status=400,
    kind="BadRequestError",
    message="One sequence a request here: n must be 1, and prompt one text or one list of ids. "
    "Each sequence takes a slot, and a request is counted as one.",
    param="n",
)
KEY_WRONG = Refusal(
    status=401,
    kind="AuthenticationError",
    message="The API key is missing or not known.",
    header="WWW-Authenticate Bearer",
)
PATH_UNKNOWN = Refusal(
    status=404,
    kind="NotFoundError",
    message="There are POST /v1/completions, POST /v1/chat/completions and GET /v1/models.",
)
METHOD_WRONG = Refusal(
    status=405,
    kind="MethodNotAllowedError",
    message="This path takes POST.",
    header="Allow POST",
)
BODY_TOO_LARGE = Refusal(
    status=413, kind="RequestTooLargeError", message="The body is larger than allowed."
)
HEADERS_TOO_LARGE = Refusal(
    status=431, kind="RequestTooLargeError", message="The headers are larger than allowed."
)

# bytes() keeps the answer short, json() escapes and drops a character that bytes() cut in two.
MODEL_UNKNOWN = Refusal(
    status=404,
    kind="NotFoundError",
    message="The model `%[var(txn.model),bytes(0,256),json(utf8s)]` does not exist.",
    param="model",
)
REPLICA_UNKNOWN = Refusal(
    status=404,
    kind="NotFoundError",
    message="The replica `%[var(txn.replica),bytes(0,256),json(utf8s)]` is not in that fleet.",
)

DEFAULT_REFUSALS = (
    Refusal(status=400, kind="BadRequestError", message="This is no valid HTTP request."),
    Refusal(status=408, kind="RequestTimeoutError", message="The request did not arrive in time."),
    Refusal(status=500, kind="InternalServerError", message="The gateway failed."),
    Refusal(status=502, kind="BadGatewayError", message="The replica broke off."),
    Refusal(
        status=503,
        kind="ServiceUnavailableError",
        message="No replica was free in time. Retry-After says when one is expected to be.",
    ),
    Refusal(status=504, kind="GatewayTimeoutError", message="The replica was silent too long."),
)
"""What HAProxy answers by itself."""


def http_return(refusal: Refusal) -> str:
    """The rule that gives `refusal`, without its condition."""
    name, _, value = refusal.header.partition(" ")
    header = f" hdr {name} {value}" if name else ""
    return f"http-request return status {refusal.status} {_content(refusal)}{header}"


def http_error(refusal: Refusal) -> str:
    """The line that replaces HAProxy's own page for the status."""
    return f"http-error status {refusal.status} {_content(refusal)}"


def _content(refusal: Refusal) -> str:
    error = {
        "message": refusal.message,
        "type": refusal.kind,
        "param": refusal.param,
        "code": refusal.status,
    }
    form = "lf-string" if "%[" in refusal.message else "string"
    return f"content-type application/json {form} '{json.dumps({'error': error})}'"
