"""When a replica has booted, when it may be asked, and how it leaves."""

import math
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings

_CANARY = ["neuronfleet-replica", "canary"]


def startup_s(boot_p99_s: float, settings: WorkloadSettings) -> int:
    """How long a boot may take before its container is restarted, in whole seconds.

    P99 548 s, margin 2, floor 1,800 -> 1,800 s; P99 2,840 s -> 5,680 s.
    """
    return math.ceil(max(settings.startup_floor_s, settings.startup_margin * boot_p99_s))


def probes(boot_p99_s: float, settings: WorkloadSettings) -> dict[str, Any]:
    """Startup and readiness probes: both are the canary.

    There is no liveness probe. It would have to be the canary too (health endpoints of a dead
    engine return 200), and the kubelet would then restart a whole fleet whose canary is wrong, on
    the same devices, without knowing of the others. The controller replaces a replica that stays
    unready, one that it can count.
    """
    canary = {
        "exec": {"command": list(_CANARY)},
        "periodSeconds": settings.probe_period_s,
        "timeoutSeconds": settings.probe_timeout_s,
    }
    boots = math.ceil(startup_s(boot_p99_s, settings) / settings.probe_period_s)
    return {
        "startupProbe": canary | {"failureThreshold": boots},
        "readinessProbe": canary | {"failureThreshold": 3},
    }


def drain_hook(fleet: ServingFleet) -> dict[str, Any]:
    """What ends a container: its streams end first."""
    timeout = str(math.ceil(fleet.drain_s))
    return {
        "preStop": {"exec": {"command": ["neuronfleet-replica", "drain", "--timeout", timeout]}}
    }


def grace_s(fleet: ServingFleet, settings: WorkloadSettings) -> int:
    """Grace of a pod, in which the drain counts too: 600 s of drain -> 630 s."""
    return math.ceil(fleet.drain_s) + math.ceil(settings.drain_margin_s)
