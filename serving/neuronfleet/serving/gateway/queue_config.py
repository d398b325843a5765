"""The queue of one fleet in a cluster: HAProxy's configuration for one backend and its waiters."""

from dataclasses import dataclass

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway import refusals
from neuronfleet.serving.gateway.admission import (
    CONFIG_FILE,
    HOLD,
    MODELS_MAP,
    bind_address,
    class_lines,
    default_lines,
    front_lines,
    key_lines,
    limit_lines,
    model_lines,
    path_lines,
    process_lines,
)
from neuronfleet.serving.gateway.config import WAITS_MAP, backend_lines, joined
from neuronfleet.serving.gateway.refusals import http_return
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewayLimits, outside

HOLD_SOCKET = "hold.sock"
"""Where the hold's one request ends: somebody has to accept there and say nothing."""
HOLD_IN_SOCKET = "hold-in.sock"
"""Where the hold's one request is made."""
METRICS_SOCKET = "metrics.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings(GatewayLimits):
    """One queue."""

    fleet: GatewayFleet
    """Whose queue it is; its models may change later (`GatewayRuntime.set_models`)."""
    bind_host: str
    """An address of this pod that the other's router reaches."""
    port: int
    """Where routers ask."""
    authenticated: bool = False
    """Whether a key is asked for."""

    def __post_init__(self) -> None:
        problems = self.limit_problems() + outside(self, "port", 1, 65535)
        if problems:
            raise SpecError.of(f"queue of {self.fleet.name}", problems)


def queue_files(settings: QueueSettings) -> dict[str, str]:
    """The configuration and the files it reads, by name; the keys' map is written apart."""
    fleet = settings.fleet
    return {
        CONFIG_FILE: render_queue(settings),
        MODELS_MAP: "".join(f"{model} {fleet.name}\n" for model in fleet.models),
        WAITS_MAP: f"{fleet.name} 1\n",
    }


def render_queue(settings: QueueSettings) -> str:
    """The configuration of a fleet's queue."""
    return joined(
        [
            process_lines(settings),
            default_lines(settings),
            _public(settings),
            _hold(settings.fleet),
            _metrics(),
            [*backend_lines(settings.fleet), *_hold_server()],
        ]
    )


def _public(settings: QueueSettings) -> list[str]:
    return [
        "frontend _public",
        f"    bind {bind_address(settings.bind_host, settings.port)}",
        *front_lines(),
        *limit_lines(settings),
        *key_lines(authenticated=settings.authenticated),
        *class_lines(),
        *path_lines(),
        *model_lines(),
        "    use_backend %[var(txn.fleet)]",
    ]


def _hold(fleet: GatewayFleet) -> list[str]:
    return [
        "frontend _hold",
        f"    bind unix@{HOLD_IN_SOCKET} mode 600",
        f"    http-request set-var(txn.replica) str({HOLD})",
        f"    use_backend {fleet.name}",
    ]


def _hold_server() -> list[str]:
    return [
        "    # While every slot is still claimed by the queue that leaves, this one has none,",
        "    # and HAProxy refuses at once where no server is up. This one is up then, with its",
        "    # slot taken for good: what comes waits.",
        f"    server {HOLD} unix@{HOLD_SOCKET} maxconn 1 disabled",
    ]


def _metrics() -> list[str]:
    return [
        "frontend _metrics",
        f"    bind unix@{METRICS_SOCKET} mode 600",
        "    http-request use-service prometheus-exporter if { path /metrics }",
        f"    {http_return(refusals.PATH_UNKNOWN)}",
    ]
