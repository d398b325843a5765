"""What one gateway is told: its fleets, its ports and its limits, checked on construction."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.gateway.keys import ClientKey

# A proxy or server name of HAProxy. The gateway's own proxies begin with "_", so none can clash.
# A fleet on Kubernetes is `<namespace>.<fleet>`: 63 + 1 + 63 = 127 characters.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
NAME_ALLOWED = "must be 1 to 128 of letters, digits and _ . : - and begin with a letter or digit"

# Map files are split at blanks, and `#` begins a comment there.
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,199}")
MODEL_ALLOWED = (
    "must be 1 to 200 of letters, digits and _ . : / @ + - and begin with one of the first"
)

MAX_CONNECTIONS = 8000
"""Two descriptors a connection, and a process here has 20,000 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFleet:
    """One fleet: a backend with one queue, the servers of which are its replicas."""

    name: str
    """The backend's name, so also the label `proxy` of HAProxy's metrics."""
    models: tuple[str, ...]
    """The values of a request's `model` that this fleet answers."""
    queue_seconds: float = 30.0
    """The queue deadline: who has found no slot by then is refused with 503. Down to 0.001."""

    def __post_init__(self) -> None:
        problems = []
        if not NAME.fullmatch(self.name):
            problems.append(Problem(path="name", value=self.name, allowed=NAME_ALLOWED))
        if not self.models:
            problems.append(Problem(path="models", value="()", allowed="must name a model"))
        problems += [
            Problem(path=f"models[{i}]", value=model, allowed=MODEL_ALLOWED)
            for i, model in enumerate(self.models)
            if not MODEL.fullmatch(model)
        ]
        problems += outside(self, "queue_seconds", 0.001, 86400)
        if problems:
            raise SpecError.of(f"gateway fleet {self.name}", problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """What one HAProxy lets clients do, whatever its part."""

    max_body_bytes: int = 65536
    """Larger bodies get 413. A waiting request holds its body, so this bounds the memory."""
    max_header_bytes: int = 16384
    """More bytes of headers get 431."""
    max_headers: int = 64
    """More header lines get 400."""
    max_connections: int = 4000
    """Client connections, those that wait included; more wait in the kernel's backlog."""
    request_seconds: float = 10.0
    """A request's headers and body have to arrive within this: who dribbles gets 408."""
    keep_alive_seconds: float = 60.0
    """A connection may idle for this long between two requests."""
    idle_seconds: float = 600.0
    """A stream may be silent for this long in either direction: a long prefill sends nothing."""
    connect_seconds: float = 2.0
    """A server has to accept a connection within this."""
    check_seconds: float = 2.0
    """Between two health checks of a replica, and the time one may take."""

    def limit_problems(self) -> list[Problem]:
        """What is outside its range."""
        return [p for name, low, high in _LIMITS for p in outside(self, name, low, high)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings(GatewayLimits):
    """One gateway on one machine."""

    fleets: tuple[GatewayFleet, ...]
    """The fleets; HAProxy 2.6 cannot add one at run time, so another fleet is another process."""
    port: int
    """Where clients ask."""
    canary_port: int
    """Where probes of one named replica ask."""
    metrics_port: int
    """Where Prometheus reads /metrics."""
    keys_file: Path | None = None
    """Lines of `<sha256 of the key> <class> [name]`; None asks nobody for a key."""
    own_keys: tuple[ClientKey, ...] = ()
    """Known beside those of the file, as that of a run's own traffic; nothing without a file."""
    models_created: int = 0
    """The `created` of every model in GET /v1/models, in Unix seconds; 0 when nobody knows."""

    def __post_init__(self) -> None:
        problems = self.limit_problems()
        problems += [p for name in _PORTS for p in outside(self, name, 1, 65535)]
        problems += outside(self, "models_created", 0, 2**40)
        problems += _doubles("port", [self.port, self.canary_port, self.metrics_port])
        problems += _doubles("fleets.name", [fleet.name for fleet in self.fleets])
        problems += _doubles("fleets.models", [m for fleet in self.fleets for m in fleet.models])
        if not self.fleets:
            problems.append(Problem(path="fleets", value="()", allowed="must hold a fleet"))
        if problems:
            raise SpecError.of("gateway settings", problems)


_PORTS = ("port", "canary_port", "metrics_port")
_LIMITS: tuple[tuple[str, float, float], ...] = (
    ("max_body_bytes", 1024, 16 * 1024 * 1024),
    ("max_header_bytes", 1024, 65536),
    ("max_headers", 16, 1000),
    ("max_connections", 1, MAX_CONNECTIONS),
    ("request_seconds", 0.001, 3600),
    ("keep_alive_seconds", 0.001, 86400),
    ("idle_seconds", 0.001, 86400),
    ("connect_seconds", 0.001, 3600),
    ("check_seconds", 0.001, 3600),
)


def outside(spec: object, name: str, low: float, high: float) -> list[Problem]:
    """The problem of a number outside [low, high]; none when it is inside (NaN is outside)."""
    value = getattr(spec, name)
    if low <= value <= high:
        return []
    return [Problem(path=name, value=value, allowed=f"must be in [{low}, {high}]")]


def _doubles(path: str, values: list[object] | list[int] | list[str]) -> list[Problem]:
    return [
        Problem(path=path, value=value, allowed=f"must be unique, and stands there {count} times")
        for value, count in Counter(values).items()
        if count > 1
    ]
