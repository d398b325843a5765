"""What the agent counts, and the metrics of all HAProxys of its pod."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import aiohttp
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from neuronfleet.serving.gateway.exposition import Labels, Source, merged
from neuronfleet.serving.gateway.queue_config import METRICS_SOCKET

log = logging.getLogger(__name__)

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_AT_ONCE = 8


class Exporter:
    """The agent's own metrics."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.active = Gauge(
            "neuronfleet_gateway_active", "1 while this pod has the queues.", registry=registry
        )
        self.handovers = Counter(
            "neuronfleet_gateway_handovers", "Times this pod took the queues.", registry=registry
        )
        self.lease_transitions = Gauge(
            "neuronfleet_gateway_lease_transitions",
            "Times this pod began or ceased to hold the Lease.",
            registry=registry,
        )
        self.replicas = Gauge(
            "neuronfleet_gateway_replicas", "Replicas in the queue.", ["fleet"], registry=registry
        )
        self.claimed = Gauge(
            "neuronfleet_gateway_claimed_slots",
            "Slots that this pod's queues claim.",
            ["fleet"],
            registry=registry,
        )
        self.refused = Gauge(
            "neuronfleet_gateway_refused_fleets",
            "1 for a fleet that is not served, and why.",
            ["fleet", "reason"],
            registry=registry,
        )
        self.failures = Counter(
            "neuronfleet_gateway_failures",
            "HAProxys that ended or failed, and files that would not do.",
            ["what"],
            registry=registry,
        )

    def tell(
        self,
        *,
        active: bool,
        lease_transitions: int,
        replicas: Mapping[str, int],
        claims: Mapping[str, Mapping[str, int]],
        refused: Mapping[str, str],
    ) -> None:
        """Set the gauges as things stand now; all mappings are by fleet."""
        self.active.set(active)
        self.lease_transitions.set(lease_transitions)
        for gauge in (self.replicas, self.claimed, self.refused):
            gauge.clear()
        for fleet, count in replicas.items():
            self.replicas.labels(fleet).set(count)
            self.claimed.labels(fleet).set(sum(claims.get(fleet, {}).values()))
        for fleet, reason in refused.items():
            self.refused.labels(fleet, reason).set(1)

    def text(self) -> str:
        """The agent's own families."""
        return generate_latest(self.registry).decode()


async def haproxy_metrics(router: Path, queues: Sequence[tuple[str, Path, bool]]) -> str:
    """Metrics of the router's folder and of queues: fleet, folder and whether it is current."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(folder: Path, scopes: str) -> str:
        async with gate:
            return await _read(folder, scopes)

    texts = await asyncio.gather(
        one(router, "scope=global&scope=frontend"),
        *(one(folder, "scope=backend&scope=server") for _, folder, _ in queues),
    )
    sources = [Source(text=texts[0], keep=_any)]
    sources += [
        Source(text=text, keep=_of(fleet), counters=current)
        for text, (fleet, _, current) in zip(texts[1:], queues, strict=True)
    ]
    return merged(sources)


def _any(name: str, labels: Labels) -> bool:
    return True


def _of(fleet: str) -> Callable[[str, Labels], bool]:
    """Keep what a queue says of its fleet and replicas, and nothing of its inner parts."""

    def keep(name: str, labels: Labels) -> bool:
        return labels.get("proxy") == fleet and not labels.get("server", "").startswith("_")

    return keep


async def _read(folder: Path, scopes: str) -> str:
    """An HAProxy's own text; empty where it does not answer."""
    connector = aiohttp.UnixConnector(str(folder / METRICS_SOCKET))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
            session.get(f"http://haproxy/metrics?{scopes}") as response,
        ):
            return await response.text()
    except (aiohttp.ClientError, OSError) as error:
        log.warning("no metrics from %s: %r", folder.name, error)
        return ""
