"""The router in front of all queues: HAProxy's configuration, which no fleet's coming changes."""

import math
from dataclasses import dataclass

from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.gateway import refusals
from neuronfleet.serving.gateway.admission import (
    CONFIG_FILE,
    MODELS_MAP,
    bind_address,
    default_lines,
    front_lines,
    key_lines,
    limit_lines,
    model_lines,
    path_lines,
    process_lines,
)
from neuronfleet.serving.gateway.config import joined
from neuronfleet.serving.gateway.queue_config import METRICS_SOCKET
from neuronfleet.serving.gateway.refusals import http_return
from neuronfleet.serving.gateway.settings import GatewayLimits, outside

CERTIFICATE_FILE = "tls.pem"
STATES_MAP = "states.map"
NOWHERE = ("127.0.0.1", 1)
"""Port 1 refuses, so a request is tried again until its queue is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings(GatewayLimits):
    """One router."""

    bind_host: str
    """Where clients ask: all addresses of the pod, or one."""
    port: int
    """HTTP."""
    tls_port: int | None = None
    """HTTPS; None without a certificate."""
    agent_host: str
    """Where GET /v1/models is answered."""
    agent_port: int
    authenticated: bool = False
    """Whether a key is asked for; the queue asks again."""
    most_fleets: int = 256
    """Backends kept ready: HAProxy 2.6 cannot add one at run time, and a reload would close
    connections on which clients are about to ask."""
    takeover_seconds: float = 30.0
    """For how long a request looks for its fleet's queue."""

    def __post_init__(self) -> None:
        problems = self.limit_problems()
        problems += outside(self, "port", 1, 65535) + outside(self, "agent_port", 1, 65535)
        problems += outside(self, "most_fleets", 1, 10_000)
        problems += outside(self, "takeover_seconds", 1, 600)
        if self.tls_port is not None:
            problems += outside(self, "tls_port", 1, 65535)
            if self.tls_port == self.port:
                allowed = "must be another port than `port`"
                problems.append(Problem(path="tls_port", value=self.port, allowed=allowed))
        if problems:
            raise SpecError.of("router settings", problems)


def backend_name(index: int) -> str:
    """The backend of the `index`-th place for a fleet."""
    return f"_queue{index}"


def router_files(settings: RouterSettings) -> dict[str, str]:
    """The configuration and the files it reads, but for keys and certificate."""
    return {
        CONFIG_FILE: render_router(settings),
        MODELS_MAP: "",
        STATES_MAP: "",
    }


def render_router(settings: RouterSettings) -> str:
    """The configuration of the router."""
    host, port = NOWHERE
    queues = [
        [f"backend {backend_name(index)}", f"    server queue {host}:{port}"]
        for index in range(settings.most_fleets)
    ]
    return joined(
        [
            process_lines(settings),
            default_lines(settings, _retries(settings)),
            _public(settings),
            _metrics(),
            _agent(settings),
            *queues,
        ]
    )


def _retries(settings: RouterSettings) -> tuple[str, ...]:
    # After a refused connection HAProxy waits for min(connect timeout, 1 s): 30 s / 0.25 s = 120.
    tries = math.ceil(settings.takeover_seconds / min(settings.connect_seconds, 1.0))
    return (
        "    # While a queue moves to the other pod, requests look for it. A queue that died",
        "    # before it answered has lost nothing but the place in it: ask its successor.",
        "    retry-on conn-failure empty-response",
        f"    retries {tries}",
        "    # Not for another server: to choose anew is what reads the server's address anew.",
        "    option redispatch 1",
        "    # Idle streams are told from dead peers by the kernel: 10 + 3 * 5 = 25 s.",
        "    option srvtcpka",
        "    srvtcpka-idle 10s",
        "    srvtcpka-intvl 5s",
        "    srvtcpka-cnt 3",
        "    option clitcpka",
    )


def _public(settings: RouterSettings) -> list[str]:
    binds = [f"    bind {bind_address(settings.bind_host, settings.port)}"]
    if settings.tls_port is not None:
        binds += [
            f"    bind {bind_address(settings.bind_host, settings.tls_port)} ssl"
            f" crt {CERTIFICATE_FILE} alpn http/1.1 ssl-min-ver TLSv1.2"
        ]
    return [
        "frontend _public",
        *binds,
        "    http-request return status 503 content-type text/plain string leaving"
        f" if {{ path /health }} {{ str(leaving),map_str({STATES_MAP}) -m found }}",
        *front_lines(),
        "    http-after-response set-header Retry-After 5"
        " if { status 503 } !{ res.hdr(retry-after) -m found }",
        *limit_lines(settings),
        *key_lines(authenticated=settings.authenticated),
        "    acl listing path /v1/models",
        "    http-request allow if METH_GET listing",
        *path_lines(),
        *model_lines(),
        "    use_backend _agent if METH_GET listing",
        "    use_backend %[var(txn.fleet)]",
    ]


def _agent(settings: RouterSettings) -> list[str]:
    return [
        "backend _agent",
        "    http-request del-header authorization",
        f"    server agent {bind_address(settings.agent_host, settings.agent_port)}",
    ]


def _metrics() -> list[str]:
    return [
        "frontend _metrics",
        f"    bind unix@{METRICS_SOCKET} mode 600",
        "    http-request use-service prometheus-exporter if { path /metrics }",
        f"    {http_return(refusals.PATH_UNKNOWN)}",
    ]
