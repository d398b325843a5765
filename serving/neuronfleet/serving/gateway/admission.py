"""What every HAProxy here shares: its process, its limits, and who and what is let in."""

import ipaddress

from neuronfleet.serving.gateway import refusals
from neuronfleet.serving.gateway.refusals import http_error, http_return
from neuronfleet.serving.gateway.settings import GatewayLimits

SOCKET_FILE = "gateway.sock"
MODELS_MAP = "models.map"
KEYS_MAP = "keys.map"
CONFIG_FILE = "haproxy.cfg"
HOLD = "_hold"
"""The server without a slot that keeps a queue a queue while no replica has one."""

CLASS_HEADER = "x-neuronfleet-class"
REPLICA_HEADER = "x-neuronfleet-replica"
FLEET_HEADER = "x-neuronfleet-fleet"

# Lower goes first. A canary holds up nobody for long: it is one short request a replica.
CANARY_PRIORITY, INTERACTIVE_PRIORITY, BATCH_PRIORITY = 0, 10, 20

_MAXREWRITE = 1024


def buffer_bytes(settings: GatewayLimits) -> int:
    """One buffer: the largest body and headers allowed, and what HAProxy adds, in whole pages."""
    # 65536 + 16384 + 1024 + 64 headers * 8 B of index + 2048 -> 86016
    index = 8 * settings.max_headers + 2048
    needed = settings.max_body_bytes + settings.max_header_bytes + _MAXREWRITE + index
    return -(-needed // 4096) * 4096


def milliseconds(seconds: float) -> str:
    """A time as HAProxy writes it, at least one millisecond."""
    return f"{max(1, round(seconds * 1000))}ms"


def bind_address(host: str, port: int) -> str:
    """Where to listen, as HAProxy writes it."""
    family = "ipv6@" if ipaddress.ip_address(host).version == 6 else ""
    return f"{family}{host}:{port}"


def process_lines(settings: GatewayLimits) -> list[str]:
    """The section `global`."""
    return [
        "global",
        "    # Files are named relative to this one: the text does not depend on its folder.",
        "    default-path config",
        f"    stats socket unix@{SOCKET_FILE} mode 600 level admin",
        "    # Ports are shared silently by default: a second gateway would take half the load.",
        "    noreuseport",
        "    # One thread: one queue in one order, and a ceiling that no race can pass.",
        "    nbthread 1",
        f"    maxconn {settings.max_connections}",
        "    # A request is routed by its body, so headers and body have to fit one buffer.",
        f"    tune.bufsize {buffer_bytes(settings)}",
        f"    tune.maxrewrite {_MAXREWRITE}",
        f"    tune.http.maxhdr {settings.max_headers}",
    ]


REPLICA_RETRIES = (
    "    # Only a connection that was never made is tried again, and elsewhere if there is.",
    "    retry-on conn-failure",
    "    retries 3",
    "    option redispatch 1",
)


def default_lines(settings: GatewayLimits, retries: tuple[str, ...] = REPLICA_RETRIES) -> list[str]:
    """The section `defaults`; `retries` says what is tried again."""
    return [
        "defaults",
        "    mode http",
        "    # Headers and body together: this is what ends a client that dribbles.",
        f"    timeout http-request {milliseconds(settings.request_seconds)}",
        f"    timeout http-keep-alive {milliseconds(settings.keep_alive_seconds)}",
        f"    timeout connect {milliseconds(settings.connect_seconds)}",
        "    # Idle times, not durations: a stream lives as long as it moves.",
        f"    timeout client {milliseconds(settings.idle_seconds)}",
        f"    timeout server {milliseconds(settings.idle_seconds)}",
        f"    timeout check {milliseconds(settings.check_seconds)}",
        "    # Each token at once: else HAProxy tells the kernel that more follows, and a token",
        "    # waits up to 200 ms for company.",
        "    option http-no-delay",
        "    # A client that has gone leaves the queue, and its replica gets the slot back.",
        "    option abortonclose",
        "    # No idle connection to a replica: it would keep the server from being deleted, and a",
        "    # server that closes one just as it is used again costs a request.",
        "    option http-server-close",
        "    http-reuse never",
        *retries,
        *(f"    {http_error(refusal)}" for refusal in refusals.DEFAULT_REFUSALS),
    ]


def front_lines() -> list[str]:
    """How a frontend for clients begins."""
    return [
        "    option http-buffer-request",
        "    option disable-h2-upgrade",
        "    http-request return status 200 content-type text/plain string ok if { path /health }",
        "    # Nobody chooses a replica here.",
        f"    http-request del-header {REPLICA_HEADER}",
        f"    http-request del-header {FLEET_HEADER}",
    ]


def limit_lines(settings: GatewayLimits) -> list[str]:
    """Refuse what is too large."""
    return [
        f"    {http_return(refusals.HEADERS_TOO_LARGE)}"
        f" if {{ req.hdrs,length gt {settings.max_header_bytes} }}",
        "    # The length announced, or what has come of a chunked body, which fills its buffer.",
        f"    {http_return(refusals.BODY_TOO_LARGE)}"
        f" if {{ req.body_size gt {settings.max_body_bytes} }}",
    ]


def key_lines(*, authenticated: bool) -> list[str]:
    """Refuse who has no key, and take the traffic class that the key allows."""
    if not authenticated:
        return ["    http-request set-var(txn.class) str(interactive)"]
    return [
        "    # Only hashes are known here. The variable stays unset for an unknown key.",
        "    http-request set-var(txn.class)"
        f" http_auth_bearer,sha2(256),hex,lower,map_str({KEYS_MAP})",
        f"    {http_return(refusals.KEY_WRONG)} unless {{ var(txn.class) -m found }}",
    ]


def class_lines() -> list[str]:
    """Hide the key from replicas, and queue by class."""
    return [
        "    # A replica has no business with a client's key.",
        "    http-request del-header authorization",
        "    # The header can lower a class and never raise it.",
        f"    http-request set-var(txn.class) str(batch) if {{ req.hdr({CLASS_HEADER}) -i batch }}",
        f"    http-request set-priority-class int({INTERACTIVE_PRIORITY})",
        f"    http-request set-priority-class int({BATCH_PRIORITY})"
        " if { var(txn.class) -m str batch }",
    ]


def path_lines() -> list[str]:
    """Refuse what is no completion."""
    return [
        "    acl completion path /v1/completions /v1/chat/completions",
        f"    {http_return(refusals.PATH_UNKNOWN)} unless completion",
        f"    {http_return(refusals.METHOD_WRONG)} unless METH_POST",
    ]


def model_lines() -> list[str]:
    """Find what the map of models says of the body's model, in `txn.fleet`."""
    return [
        "    # Exact match of the name as JSON decodes it; what is no string field is not found.",
        "    http-request set-var(txn.model) req.body,json_query('$.model')",
        f"    {http_return(refusals.MODEL_MISSING)} unless {{ var(txn.model) -m len gt 0 }}",
        "    # maxconn counts requests and a ceiling sequences: a request that asks for several",
        "    # would take a replica over its ceiling.",
        "    acl several req.body,json_query('$.n','int') -m int gt 1",
        "    acl several req.body,json_query('$.best_of','int') -m int gt 1",
        '    acl listed req.body -m reg "prompt\\"[[:space:]]*:[[:space:]]*\\[[[:space:]]*[[\\"]"',
        "    acl second req.body,json_query('$.prompt[1]') -m found",
        '    acl several req.body -m reg "prompt\\"[[:space:]]*:[[:space:]]*'
        '\\[[[:space:]]*\\[[^]]*][[:space:]]*,"',
        f"    {http_return(refusals.MANY_SEQUENCES)} if several or listed second",
        f"    http-request set-var(txn.fleet) var(txn.model),map_str({MODELS_MAP})",
        f"    {http_return(refusals.MODEL_UNKNOWN)} unless {{ var(txn.fleet) -m found }}",
    ]
