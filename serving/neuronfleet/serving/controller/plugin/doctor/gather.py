"""Read what the doctor looks at, all of it at once."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from neuronfleet.serving.api import crd
from neuronfleet.serving.controller.kube import KubeError
from neuronfleet.serving.controller.plugin.access import Access
from neuronfleet.serving.controller.plugin.doctor.facts import Facts, Named, named
from neuronfleet.serving.controller.plugin.reader import Body, Items, Reader, Unseen
from neuronfleet.serving.controller.records import FLEET_LABEL

_LEASES = "/apis/coordination.k8s.io/v1/leases"
_CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.PLURAL}.{crd.GROUP}"
_NAMED = {
    "Secret": "secrets",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ServiceAccount": "serviceaccounts",
}
_GATEWAYS = "app.kubernetes.io/name=neuronfleet,app.kubernetes.io/component=gateway"
"""As the chart labels them."""
_GATEWAY_LEASE = "neuronfleet-gateway"
"""Of the chart under its usual name, to tell a gateway whose pods are gone."""
_MOST_LOGS = 5
"""Dying containers whose last words are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNames:
    """Names of the Leases, as an installation chose them."""

    controller: str = "neuronfleet-controller"
    gateway: str | None = None
    """None takes those that the chart names after the gateways' Deployments."""


async def gather(access: Access, name: str, leases: LeaseNames) -> Facts:
    """Facts about one fleet.

    Raises:
        SpecError: there is no such fleet.
        KubeError: the fleet itself could not be read; all else may stay unknown.
    """
    fleet, read, core = await access.fleet(name), access.reader, _within("/api/v1", access)
    selector = f"{FLEET_LABEL}={name}"
    seen = await _lists(
        read,
        controllers=(_LEASES, {"fieldSelector": f"metadata.name={leases.controller}"}),
        gateway_pods=("/api/v1/pods", {"labelSelector": _GATEWAYS}),
        pods=(f"{core}/pods", {"labelSelector": selector}),
        deployments=(
            _within("/apis/apps/v1", access) + "/deployments",
            {"labelSelector": selector},
        ),
        nodes=("/api/v1/nodes", {"labelSelector": _node_selector(fleet)}),
        events=(f"{core}/events", {"fieldSelector": "type=Warning,involvedObject.kind=Pod"}),
        quotas=(f"{core}/resourcequotas", {}),
        budgets=(_within("/apis/policy/v1", access) + "/poddisruptionbudgets", {}),
        policies=(_within("/apis/networking.k8s.io/v1", access) + "/networkpolicies", {}),
    )
    pods = seen["pods"]
    return Facts(
        now=read.now,
        fleet=fleet,
        crd=await _one(read, _CRD),
        controller_leases=seen["controllers"],
        gateway_leases=await _gateway_leases(read, seen["gateway_pods"], leases.gateway),
        gateway_pods=seen["gateway_pods"],
        pods=pods,
        deployments=seen["deployments"],
        nodes=seen["nodes"],
        events=seen["events"],
        quotas=seen["quotas"],
        budgets=seen["budgets"],
        policies=seen["policies"],
        exists=await _exist(read, core, named(fleet)),
        last_words=await _last_words(read, core, () if isinstance(pods, Unseen) else pods),
    )


def _within(api: str, access: Access) -> str:
    return f"{api}/namespaces/{quote(access.namespace)}"


async def _lists(read: Reader, **wanted: tuple[str, dict[str, str]]) -> dict[str, Items]:
    found = await asyncio.gather(*(read.look(path, **query) for path, query in wanted.values()))
    return dict(zip(wanted, found, strict=True))


async def _one(read: Reader, path: str) -> Body | Unseen:
    try:
        return await read.get(path)
    except KubeError as error:
        return Unseen(why=str(error))


def _node_selector(fleet: Body) -> str:
    """Nodes of the instance types that the variants name: others carry no replica."""
    variants = (fleet.get("spec") or {}).get("variants") or ()
    types = sorted({str(one.get("instanceType") or "none") for one in variants}) or ["none"]
    return f"node.kubernetes.io/instance-type in ({','.join(types)})"


async def _gateway_leases(read: Reader, pods: Items, given: str | None) -> Items:
    names = {given or _GATEWAY_LEASE}
    if given is None and not isinstance(pods, Unseen):
        names |= {_deployment_of(pod) for pod in pods}
    lists = await asyncio.gather(
        *(read.look(_LEASES, fieldSelector=f"metadata.name={one}") for one in sorted(names))
    )
    found: list[Body] = []
    for leases in lists:
        if isinstance(leases, Unseen):
            return leases
        found += leases
    return tuple(found)


def _deployment_of(pod: Body) -> str:
    """Its ReplicaSet's name without the template's digest."""
    owners = pod["metadata"].get("ownerReferences") or ({"name": pod["metadata"]["name"]},)
    return str(owners[0]["name"]).rpartition("-")[0]


async def _exist(read: Reader, core: str, wanted: Iterable[Named]) -> dict[Named, bool | Unseen]:
    ordered = list(wanted)
    found = await asyncio.gather(
        *(read.exists(f"{core}/{_NAMED[one.kind]}/{quote(one.name)}") for one in ordered)
    )
    return dict(zip(ordered, found, strict=True))


async def _last_words(read: Reader, core: str, pods: Iterable[Body]) -> dict[str, str]:
    """The last line of containers that died before they served."""
    dying = [pod["metadata"]["name"] for pod in pods if _restarts(pod)][:_MOST_LOGS]
    query = {"previous": "true", "tailLines": "1", "limitBytes": "2000"}
    words: dict[str, str] = {}
    for name in dying:
        try:
            words[name] = await read.text(
                f"{core}/pods/{quote(name)}/log", accept="*/*", container="replica", **query
            )
        except KubeError:
            # The kubelet may be away, or the log rotated: the termination message is left.
            continue
    return words


def _restarts(pod: Body) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(one.get("restartCount") or 0) for one in statuses if not one.get("ready"))
