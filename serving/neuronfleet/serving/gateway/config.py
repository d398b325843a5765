"""HAProxy's configuration as a pure function of the gateway's settings."""

import json

from neuronfleet.serving.gateway import refusals
from neuronfleet.serving.gateway.refusals import http_error, http_return
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings

LOOPBACK = "127.0.0.1"
SOCKET_FILE = "gateway.sock"
MODELS_MAP = "models.map"
WAITS_MAP = "waits.map"
KEYS_MAP = "keys.map"
REPLICAS_MAP = "replicas.map"
MODELS_FILE = "models.json"
CONFIG_FILE = "haproxy.cfg"

CLASS_HEADER = "x-neuronfleet-class"
REPLICA_HEADER = "x-neuronfleet-replica"
FLEET_HEADER = "x-neuronfleet-fleet"

# Lower goes first. A canary holds up nobody for long: it is one short request a replica.
CANARY_PRIORITY, INTERACTIVE_PRIORITY, BATCH_PRIORITY = 0, 10, 20

_MAXREWRITE = 1024


def render(settings: GatewaySettings) -> str:
    """The configuration; the files that it names stand beside it (see `files`)."""
    sections = [_globals(settings), _defaults(settings), _public(settings), _canary(settings)]
    sections.append(_metrics(settings))
    sections += [_backend(fleet) for fleet in settings.fleets]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def files(settings: GatewaySettings) -> dict[str, str]:
    """The configuration and the files it reads, by name; the keys' map is written apart."""
    models = [(model, fleet.name) for fleet in settings.fleets for model in fleet.models]
    listed = [
        {
            "id": model,
            "object": "model",
            "created": settings.models_created,
            "owned_by": "neuronfleet",
        }
        for model, _ in models
    ]
    return {
        CONFIG_FILE: render(settings),
        MODELS_MAP: "".join(f"{model} {fleet}\n" for model, fleet in models),
        WAITS_MAP: "".join(f"{fleet.name} 1\n" for fleet in settings.fleets),
        REPLICAS_MAP: "",
        MODELS_FILE: json.dumps({"object": "list", "data": listed}),
    }


def buffer_bytes(settings: GatewaySettings) -> int:
    """One buffer: the largest body and headers allowed, and what HAProxy adds, in whole pages."""
    # 65536 + 16384 + 1024 + 64 headers * 8 B of index + 2048 -> 86016
    index = 8 * settings.max_headers + 2048
    needed = settings.max_body_bytes + settings.max_header_bytes + _MAXREWRITE + index
    return -(-needed // 4096) * 4096


def _ms(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _globals(settings: GatewaySettings) -> list[str]:
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


def _defaults(settings: GatewaySettings) -> list[str]:
    return [
        "defaults",
        "    mode http",
        "    # Headers and body together: this is what ends a client that dribbles.",
        f"    timeout http-request {_ms(settings.request_seconds)}",
        "    timeout http-keep-alive 60s",
        f"    timeout connect {_ms(settings.connect_seconds)}",
        "    # Idle times, not durations: a stream lives as long as it moves.",
        f"    timeout client {_ms(settings.idle_seconds)}",
        f"    timeout server {_ms(settings.idle_seconds)}",
        f"    timeout check {_ms(settings.check_seconds)}",
        "    # Each token at once: else HAProxy tells the kernel that more follows, and a token",
        "    # waits up to 200 ms for company.",
        "    option http-no-delay",
        "    # A client that has gone leaves the queue, and its replica gets the slot back.",
        "    option abortonclose",
        "    # No idle connection to a replica: it would keep the server from being deleted, and a",
        "    # server that closes one just as it is used again costs a request.",
        "    option http-server-close",
        "    http-reuse never",
        "    # Only a connection that was never made is tried again, and elsewhere if there is.",
        "    retry-on conn-failure",
        "    retries 3",
        "    option redispatch 1",
        *(f"    {http_error(refusal)}" for refusal in refusals.DEFAULT_REFUSALS),
    ]


def _public(settings: GatewaySettings) -> list[str]:
    return [
        "frontend _public",
        f"    bind {LOOPBACK}:{settings.port}",
        "    option http-buffer-request",
        "    option disable-h2-upgrade",
        "    http-request return status 200 content-type text/plain string ok if { path /health }",
        "    # Nobody chooses a replica here.",
        f"    http-request del-header {REPLICA_HEADER}",
        f"    http-request del-header {FLEET_HEADER}",
        *_limits(settings),
        *_class(authenticated=settings.keys_file is not None),
        "    http-request return status 200 content-type application/json"
        f" file {MODELS_FILE} if METH_GET {{ path /v1/models }}",
        *_paths(),
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
        "    use_backend %[var(txn.fleet)]",
    ]


def _limits(settings: GatewaySettings) -> list[str]:
    return [
        f"    {http_return(refusals.HEADERS_TOO_LARGE)}"
        f" if {{ req.hdrs,length gt {settings.max_header_bytes} }}",
        "    # The length announced, or what has come of a chunked body, which fills its buffer.",
        f"    {http_return(refusals.BODY_TOO_LARGE)}"
        f" if {{ req.body_size gt {settings.max_body_bytes} }}",
    ]


def _class(*, authenticated: bool) -> list[str]:
    lines = ["    http-request set-var(txn.class) str(interactive)"]
    if authenticated:
        lines = [
            "    # Only hashes are known here. The variable stays unset for an unknown key.",
            "    http-request set-var(txn.class)"
            f" http_auth_bearer,sha2(256),hex,lower,map_str({KEYS_MAP})",
            f"    {http_return(refusals.KEY_WRONG)} unless {{ var(txn.class) -m found }}",
        ]
    return [
        *lines,
        "    # A replica has no business with a client's key.",
        "    http-request del-header authorization",
        "    # The header can lower a class and never raise it.",
        f"    http-request set-var(txn.class) str(batch) if {{ req.hdr({CLASS_HEADER}) -i batch }}",
        f"    http-request set-priority-class int({INTERACTIVE_PRIORITY})",
        f"    http-request set-priority-class int({BATCH_PRIORITY})"
        " if { var(txn.class) -m str batch }",
    ]


def _paths() -> list[str]:
    return [
        "    acl completion path /v1/completions /v1/chat/completions",
        f"    {http_return(refusals.PATH_UNKNOWN)} unless completion",
        f"    {http_return(refusals.METHOD_WRONG)} unless METH_POST",
    ]


def _canary(settings: GatewaySettings) -> list[str]:
    return [
        "frontend _canary",
        f"    bind {LOOPBACK}:{settings.canary_port}",
        "    option http-buffer-request",
        "    option disable-h2-upgrade",
        *_limits(settings),
        *_paths(),
        "    http-request del-header authorization",
        f"    http-request set-var(txn.replica) req.hdr({REPLICA_HEADER})",
        "    # The map holds replicas that have been in the balancer: HAProxy 2.6 crashes when a",
        "    # server added at run time serves before that and is enabled after it. And use-server",
        "    # lets a name that it does not know go to any replica.",
        f"    http-request set-var(txn.fleet)"
        f" req.hdr({FLEET_HEADER}),concat(/,txn.replica),map_str({REPLICAS_MAP})",
        f"    {http_return(refusals.REPLICA_UNKNOWN)} unless {{ var(txn.fleet) -m found }}",
        f"    http-request set-priority-class int({CANARY_PRIORITY})",
        "    use_backend %[var(txn.fleet)]",
    ]


def _metrics(settings: GatewaySettings) -> list[str]:
    return [
        "frontend _metrics",
        f"    bind {LOOPBACK}:{settings.metrics_port}",
        "    http-request use-service prometheus-exporter if { path /metrics }",
        f"    {http_return(refusals.PATH_UNKNOWN)}",
    ]


def _backend(fleet: GatewayFleet) -> list[str]:
    wait = f"%[be_name,map_str_int({WAITS_MAP},1)]"
    return [
        f"backend {fleet.name}",
        "    balance leastconn",
        f"    timeout queue {_ms(fleet.queue_seconds)}",
        "    option httpchk GET /health",
        "    http-check expect status 200",
        "    # Set by the canary frontend alone. force-persist keeps a canary from being tried on",
        "    # another replica, and lets it reach one that drains or is down.",
        "    force-persist if { var(txn.replica) -m found }",
        "    use-server %[var(txn.replica)] if { var(txn.replica) -m found }",
        "    # Also on the refusal of a fleet without a server; a replica's own header stays.",
        f"    http-after-response set-header Retry-After {wait}"
        " if { status 503 } !{ res.hdr(retry-after) -m found }",
    ]
