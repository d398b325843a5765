"""What the controller is told: one YAML file, parsed once."""

from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import yaml

from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.controller.view import Patience
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings

_DAY = 86_400.0
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """One controller."""

    prometheus_url: str
    lease_namespace: str
    workloads: WorkloadSettings
    lease_name: str = "neuronfleet-controller"
    namespaces: tuple[str, ...] = ()
    """Namespaces that it watches; empty: all."""
    interval_s: float = 15.0
    """Between two rounds over all fleets: the scrape interval."""
    expected_boot_s: float = 900.0
    """What a boot is taken to last until some were seen."""
    gateway_service: str = "neuronfleet-gateway-peers"
    """Headless Service of the gateway's pods: their counters stand in for metrics."""
    gateway_port: int = 8090
    """Where each of them answers /metrics."""
    http_port: int = 8080
    """Where it answers /metrics and /healthz, on all addresses of its pod."""
    http_host: str = "0.0.0.0"
    patience: Patience = field(default_factory=Patience)


def load(path: Path) -> ControllerSettings:
    """Settings of a file.

    Raises:
        SpecError: every problem, each with its field, value and range.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}, must be a readable YAML file") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    problems: list[Problem] = []
    settings = read(Fields(document or {}, "", problems))
    if problems:
        raise SpecError.of(str(path), problems)
    return settings


def read(fields: Fields) -> ControllerSettings:
    """Settings of a mapping; problems are noted in its list."""
    lease = fields.section("lease")
    prometheus = fields.section("prometheus")
    gateway = fields.section("gateway")
    settings = ControllerSettings(
        prometheus_url=prometheus.text("url", pattern=r"https?://\S+").rstrip("/"),
        lease_namespace=lease.text("namespace"),
        lease_name=lease.text("name", "neuronfleet-controller"),
        namespaces=fields.strings("namespaces"),
        interval_s=fields.seconds("interval", 0.5, 600, 15.0),
        expected_boot_s=fields.seconds("expectedBoot", 1, _DAY, 900.0),
        gateway_service=gateway.text("service", "neuronfleet-gateway-peers"),
        gateway_port=gateway.integer("metricsPort", 1, 65535, 8090),
        http_port=fields.integer("httpPort", 1, 65535, 8080),
        http_host=fields.text("httpHost", "0.0.0.0"),
        patience=_patience(fields.section("patience")),
        workloads=_workloads(fields.section("workloads")),
    )
    for section in (lease, prometheus, gateway, fields):
        section.close()
    return settings


def _patience(fields: Fields) -> Patience:
    usual = Patience()
    patience = Patience(
        capacity_wait_s=fields.seconds("capacityWait", 1, _DAY, usual.capacity_wait_s),
        capacity_retry_s=fields.seconds("capacityRetry", 1, _DAY, usual.capacity_retry_s),
        unready_s=fields.seconds("unready", 1, _DAY, usual.unready_s),
        restarts=fields.integer("restarts", 1, 100, usual.restarts),
        slow_boots=fields.number("slowBoots", 1, 100, usual.slow_boots),
    )
    fields.close()
    return patience


def _workloads(fields: Fields) -> WorkloadSettings:
    images, gateway = fields.section("images"), fields.section("gateway")
    monitoring = fields.section("monitoring")
    named = {1: images.optional("generation1"), 2: images.optional("generation2")}
    settings = WorkloadSettings(
        images={generation: image for generation, image in named.items() if image},
        gateway_namespace=gateway.text("namespace"),
        gateway_labels=dict(gateway.pairs("labels")),
        monitoring_namespace=monitoring.optional("namespace"),
        monitoring_labels=dict(monitoring.pairs("labels")),
        scheduler_name=fields.optional("schedulerName"),
        shm_bytes=int(fields.number("shmGiB", 0.0625, 1024, _usual("shm_bytes") / _GIB) * _GIB),
        startup_margin=fields.number("startupMargin", 1, 100, _usual("startup_margin")),
        capacity_wait_s=fields.seconds("capacityWait", 1, _DAY, _usual("capacity_wait_s")),
        probe_timeout_s=fields.integer(
            "probeTimeoutSeconds", 1, 300, int(_usual("probe_timeout_s"))
        ),
        user=fields.integer("user", 1, 2**31 - 1, int(_usual("user"))),
        **_networks(fields.section("networks")),
        request_share=fields.number("requestShare", 0, 1, _usual("request_share")),
        drain_margin_s=fields.seconds("drainMargin", 1, 3600, _usual("drain_margin_s")),
        startup_floor_s=fields.seconds("startupFloor", 1, _DAY, _usual("startup_floor_s")),
        probe_period_s=fields.integer("probePeriodSeconds", 1, 300, int(_usual("probe_period_s"))),
    )
    for section in (images, gateway, monitoring, fields):
        section.close()
    return settings


def _networks(fields: Fields) -> dict[str, Any]:
    """Where names are resolved and weights come from, as far as it is told."""
    dns = fields.section("dns")
    told = {
        "dns_namespace": dns.optional("namespace"),
        "dns_labels": dict(dns.pairs("labels")),
        "weights_cidrs": fields.strings("weightsCidrs"),
        "private_cidrs": fields.strings("privateCidrs"),
    }
    dns.close()
    fields.close()
    return {name: value for name, value in told.items() if value}


def _usual(name: str) -> float:
    """The default of a number among the workload settings."""
    found = next(one for one in dataclass_fields(WorkloadSettings) if one.name == name)
    return float(found.default)  # type: ignore[arg-type]
