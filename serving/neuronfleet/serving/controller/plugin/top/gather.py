"""Fleets, their pods and their metrics, read together."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from neuronfleet.serving.controller.plugin.access import Access
from neuronfleet.serving.controller.plugin.reader import Body
from neuronfleet.serving.controller.plugin.top.metrics import Measured
from neuronfleet.serving.controller.plugin.top.rows import Top, top_of
from neuronfleet.serving.controller.records import FLEET_LABEL, MANAGED_LABEL, MANAGER


async def tops(
    access: Access, name: str | None, measure: Callable[[], Awaitable[Measured]]
) -> list[Top]:
    """One fleet, or all of the namespace or the cluster.

    Raises:
        SpecError: there is no such fleet.
        KubeError: the API server refused or did not answer.
        SourceError: Prometheus did not answer.
    """
    fleets = (await access.fleets()) if name is None else (await access.fleet(name),)
    pods, measured = await asyncio.gather(_pods(access, name), measure())
    return [
        top_of(fleet, [pod for pod in pods if _of(pod, fleet)], measured, access.reader.now)
        for fleet in sorted(fleets, key=_key)
    ]


async def _pods(access: Access, name: str | None) -> tuple[Body, ...]:
    within = "" if access.everywhere else f"/namespaces/{quote(access.namespace)}"
    selector = f"{MANAGED_LABEL}={MANAGER}" + (f",{FLEET_LABEL}={name}" if name else "")
    found = await access.reader.get(f"/api/v1{within}/pods", labelSelector=selector)
    return tuple(found.get("items") or ())


def _of(pod: Body, fleet: Body) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return (pod["metadata"]["namespace"], labels.get(FLEET_LABEL)) == _key(fleet)


def _key(fleet: Body) -> tuple[str, str]:
    return fleet["metadata"]["namespace"], fleet["metadata"]["name"]
