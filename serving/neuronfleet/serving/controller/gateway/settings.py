"""What one gateway pod is told: a YAML file, and its own name and address from the environment."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.controller.lease import LeaseTimes
from neuronfleet.serving.gateway.router_config import RouterSettings
from neuronfleet.serving.gateway.settings import MAX_CONNECTIONS

_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_DAY = 86_400.0

_CONNECT_S = 0.25
"""From pod to pod; HAProxy pauses for as long after a refused connection."""

GATEWAY_LEASE = LeaseTimes(lease_s=2, renew_s=1.5)
"""Whoever waits looks each second, so a crashed pod's part is taken within 2 + 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """One gateway pod."""

    pod: str
    """Its name, which is its identity for the Lease."""
    pod_ip: str
    """Where the other pod's router reaches its queues."""
    namespace: str
    """Of the gateway: of its Lease and its Service."""
    service: str
    """The headless Service of the gateway's pods, with unready addresses published."""
    directory: Path
    """A writable folder, short enough for sockets' paths (107 bytes)."""
    lease: str = "neuronfleet-gateway"
    lease_times: LeaseTimes = GATEWAY_LEASE
    namespaces: tuple[str, ...] = ()
    """Namespaces whose fleets it serves; empty: all."""
    bind_host: str = "0.0.0.0"
    """Where it listens; queues included."""
    port: int = 8080
    """HTTP for clients."""
    tls_port: int = 8443
    """HTTPS for clients, where there is a certificate."""
    agent_port: int = 8090
    """/claims, /queues, /metrics, /healthz and /readyz."""
    queue_ports: tuple[int, int] = (20000, 29999)
    """First and last port for queues: one a fleet, and one more while a queue is replaced."""
    tls_certificate: Path | None = None
    """PEM file of the certificate and its chain, as `tls.crt` of a Secret; None: no HTTPS."""
    tls_key: Path | None = None
    """PEM file of its key, as `tls.key` of a Secret."""
    keys_file: Path | None = None
    """API keys (see `gateway.keys`); None asks nobody for a key."""
    most_fleets: int = 256
    """Fleets that this gateway can serve."""
    max_connections: int = 4000
    """Of each HAProxy; `ulimit -n` has to be above twice that."""
    idle_s: float = 3600.0
    """A stream may be silent for so long. A load balancer in front needs as much (an ALB's idle
    timeout is 60 s by default, 4000 s at most)."""
    keep_alive_s: float = 4060.0
    """Idle client connections stay open for longer than any ALB's idle timeout (4000 s at most):
    else the ALB may send a request on a connection that is just being closed, and answer 502."""
    takeover_s: float = 30.0
    """For how long a request looks for its fleet's queue."""
    leave_s: float = 5.0
    """After SIGTERM new connections are taken for so long: until endpoints have heard of it."""
    grace_s: float = 2.0
    """After routers point elsewhere a leaving queue keeps one slot for so long."""
    drain_s: float = 600.0
    """After SIGTERM streams may go on for so long."""
    silent_s: float = 10.0
    """A pod that has neither answered nor refused for so long claims nothing any more."""


def load(path: Path, environment: Mapping[str, str]) -> AgentSettings:
    """Settings of a file, and of POD_NAME, POD_IP and POD_NAMESPACE.

    Raises:
        SpecError: every problem, each with its field, value and range.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SpecError(f"{path}: {reason}, must be a readable YAML file") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    problems: list[Problem] = []
    settings = read(Fields({} if document is None else document, "", problems), environment)
    if problems:
        raise SpecError.of(str(path), problems)
    return settings


def read(fields: Fields, environment: Mapping[str, str]) -> AgentSettings:
    """Settings of a mapping; problems are noted in its list."""
    tls, lease, queues = fields.section("tls"), fields.section("lease"), fields.section("queues")
    certificate, key = tls.optional("certificate"), tls.optional("key")
    if (certificate is None) != (key is None):
        tls.problems_at("one of certificate and key", "must have both or neither")
    keys = fields.optional("keysFile")
    settings = AgentSettings(
        pod=_given(fields, environment, "POD_NAME"),
        pod_ip=_address(fields, environment),
        namespace=_given(fields, environment, "POD_NAMESPACE"),
        service=fields.text("service", pattern=_NAME),
        directory=Path(fields.text("directory", "/tmp/gw")),
        lease=lease.text("name", "neuronfleet-gateway", pattern=_NAME),
        lease_times=_times(lease),
        namespaces=fields.strings("namespaces"),
        bind_host=fields.text("bindHost", "0.0.0.0"),
        port=fields.integer("port", 1, 65535, 8080),
        tls_port=tls.integer("port", 1, 65535, 8443),
        agent_port=fields.integer("agentPort", 1, 65535, 8090),
        queue_ports=_ports(queues),
        tls_certificate=None if certificate is None else Path(certificate),
        tls_key=None if key is None else Path(key),
        keys_file=None if keys is None else Path(keys),
        most_fleets=fields.integer("mostFleets", 1, 10_000, 256),
        max_connections=fields.integer("maxConnections", 1, MAX_CONNECTIONS, 4000),
        **_durations(fields),
    )
    for section in (tls, lease, queues, fields):
        section.close()
    return settings


def router_settings(settings: AgentSettings) -> RouterSettings:
    """What the pod's router is told."""
    return RouterSettings(
        bind_host=settings.bind_host,
        port=settings.port,
        tls_port=settings.tls_port if settings.tls_certificate is not None else None,
        agent_host=_loopback(settings.bind_host),
        agent_port=settings.agent_port,
        authenticated=settings.keys_file is not None,
        most_fleets=settings.most_fleets,
        takeover_seconds=settings.takeover_s,
        max_connections=settings.max_connections,
        idle_seconds=settings.idle_s,
        keep_alive_seconds=settings.keep_alive_s,
        connect_seconds=_CONNECT_S,
    )


def _loopback(bind_host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_host, bind_host)


def _durations(fields: Fields) -> dict[str, float]:
    return {
        "idle_s": fields.seconds("idleTimeout", 1, _DAY, 3600.0),
        "keep_alive_s": fields.seconds("keepAlive", 1, _DAY, 4060.0),
        "takeover_s": fields.seconds("takeoverTimeout", 1, 600, 30.0),
        "leave_s": fields.seconds("leaveDelay", 0, 600, 5.0),
        "grace_s": fields.seconds("graceDelay", 0, 600, 2.0),
        "drain_s": fields.seconds("drainTimeout", 0, _DAY, 600.0),
        "silent_s": fields.seconds("silentAfter", 1, 600, 10.0),
    }


def _times(lease: Fields) -> LeaseTimes:
    lease_s = lease.integer("seconds", 2, 60, 2)
    # The client wants: duration > deadline > 1.2 * retry. 0.75 * 2 = 1.5 > 1.2.
    return LeaseTimes(lease_s=lease_s, renew_s=0.75 * lease_s)


def _ports(queues: Fields) -> tuple[int, int]:
    first = queues.integer("firstPort", 1, 65535, 20000)
    last = queues.integer("lastPort", 1, 65535, 29999)
    if last < first:
        queues.problem("lastPort", last, f"must be in [firstPort = {first}, 65535]")
    return first, last


def _given(fields: Fields, environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        fields.problems.append(
            Problem(path=name, value="nothing", allowed="must be set, by the downward API")
        )
    return value


def _address(fields: Fields, environment: Mapping[str, str]) -> str:
    value = _given(fields, environment, "POD_IP")
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        if value:
            fields.problems.append(
                Problem(path="POD_IP", value=value, allowed="must be an IP address")
            )
        return "127.0.0.1"
