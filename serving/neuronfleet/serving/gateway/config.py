"""HAProxy's configuration as a pure function of the gateway's settings."""

import json
from collections.abc import Sequence

from neuronfleet.serving.gateway import refusals
from neuronfleet.serving.gateway.admission import (
    CANARY_PRIORITY,
    CONFIG_FILE,
    FLEET_HEADER,
    MODELS_MAP,
    REPLICA_HEADER,
    bind_address,
    class_lines,
    default_lines,
    front_lines,
    key_lines,
    limit_lines,
    milliseconds,
    model_lines,
    path_lines,
    process_lines,
)
from neuronfleet.serving.gateway.refusals import http_return
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings

LOOPBACK = "127.0.0.1"
WAITS_MAP = "waits.map"
REPLICAS_MAP = "replicas.map"
MODELS_FILE = "models.json"


def render(settings: GatewaySettings) -> str:
    """The configuration; the files that it names stand beside it (see `files`)."""
    sections = [process_lines(settings), default_lines(settings)]
    sections += [_public(settings), _canary(settings), _metrics(settings)]
    sections += [backend_lines(fleet) for fleet in settings.fleets]
    return joined(sections)


def joined(sections: Sequence[Sequence[str]]) -> str:
    """The text of a configuration's sections."""
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def files(settings: GatewaySettings) -> dict[str, str]:
    """The configuration and the files it reads, by name; the keys' map is written apart."""
    models = [(model, fleet.name) for fleet in settings.fleets for model in fleet.models]
    return {
        CONFIG_FILE: render(settings),
        MODELS_MAP: "".join(f"{model} {fleet}\n" for model, fleet in models),
        WAITS_MAP: "".join(f"{fleet.name} 1\n" for fleet in settings.fleets),
        REPLICAS_MAP: "",
        MODELS_FILE: models_list([model for model, _ in models], settings.models_created),
    }


def models_list(models: Sequence[str], created: int) -> str:
    """What GET /v1/models answers; `created` in Unix seconds."""
    listed = [
        {"id": model, "object": "model", "created": created, "owned_by": "neuronfleet"}
        for model in models
    ]
    return json.dumps({"object": "list", "data": listed})


def _public(settings: GatewaySettings) -> list[str]:
    return [
        "frontend _public",
        f"    bind {bind_address(LOOPBACK, settings.port)}",
        *front_lines(),
        *limit_lines(settings),
        *key_lines(authenticated=settings.keys_file is not None),
        *class_lines(),
        "    http-request return status 200 content-type application/json"
        f" file {MODELS_FILE} if METH_GET {{ path /v1/models }}",
        *path_lines(),
        *model_lines(),
        "    use_backend %[var(txn.fleet)]",
    ]


def _canary(settings: GatewaySettings) -> list[str]:
    return [
        "frontend _canary",
        f"    bind {bind_address(LOOPBACK, settings.canary_port)}",
        "    option http-buffer-request",
        "    option disable-h2-upgrade",
        *limit_lines(settings),
        *path_lines(),
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
        f"    bind {bind_address(LOOPBACK, settings.metrics_port)}",
        "    http-request use-service prometheus-exporter if { path /metrics }",
        f"    {http_return(refusals.PATH_UNKNOWN)}",
    ]


def backend_lines(fleet: GatewayFleet) -> list[str]:
    """The backend of one fleet, still without a replica."""
    wait = f"%[be_name,map_str_int({WAITS_MAP},1)]"
    return [
        f"backend {fleet.name}",
        "    balance leastconn",
        f"    timeout queue {milliseconds(fleet.queue_seconds)}",
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
