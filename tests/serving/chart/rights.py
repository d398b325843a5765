"""Every right of the chart's two accounts, and what it is for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Object = Mapping[str, Any]


class Where(StrEnum):
    """How far a right reaches."""

    FLEETS = "in the namespaces of fleets"
    HOME = "in the release's own namespace"
    CLUSTER = "in the whole cluster"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Right:
    """One verb on one resource."""

    part: str
    where: Where
    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()
    """The only objects that it holds for; empty: all."""


def _rights(
    part: str, where: Where, group: str, resource: str, *names: str, **verbs: str
) -> dict[Right, str]:
    return {
        Right(
            part=part, where=where, group=group, resource=resource, verb=verb, names=names
        ): reason
        for verb, reason in verbs.items()
    }


_SEEN = {
    "list": "what is there at the start, and what a watch missed (`operator.resync`)",
    "watch": "what changes (`operator.registry`)",
}
_APPLIED = {
    "create": "server-side apply of what is not there yet",
    "patch": "server-side apply of what is there",
}
_CONTROLLER, _GATEWAY = "controller", "gateway"
_LEASES = "coordination.k8s.io"


def wanted(controller_lease: str, gateway_lease: str) -> dict[Right, str]:
    """All rights and their reasons."""
    fleets, home = Where.FLEETS, Where.HOME
    ours = ("neuronfleet.dev", "servingfleets")
    old = "a revision that nobody runs any more (`steps`)"
    return (
        _rights(_CONTROLLER, fleets, *ours, **_SEEN)
        | _rights(_CONTROLLER, fleets, ours[0], "servingfleets/status", patch="`patch_status`")
        | _rights(
            _CONTROLLER, fleets, ours[0], "servingfleets/finalizers",
            update="owner references that block deletion, where the cluster checks who sets them",
        )
        | _rights(_CONTROLLER, fleets, "apps", "deployments", **_SEEN, **_APPLIED, delete=old)
        | _rights(_CONTROLLER, fleets, "", "services", **_SEEN, **_APPLIED, delete=old)
        | _rights(_CONTROLLER, fleets, "policy", "poddisruptionbudgets", **_SEEN, **_APPLIED)
        | _rights(
            _CONTROLLER, fleets, "networking.k8s.io", "networkpolicies", **_SEEN, **_APPLIED
        )
        | _rights(
            _CONTROLLER, fleets, "", "pods", **_SEEN,
            patch="deletion cost and protection from Karpenter (`Annotate`)",
            delete="a failed replica, or one on a sick node (`DeletePod`)",
        )
        | _rights(_CONTROLLER, fleets, "", "events", create="transitions (`post_event`)")
        | _rights(
            _CONTROLLER, Where.CLUSTER, "", "nodes", **_SEEN,
            patch="cordons a node whose devices fail (`Cordon`)",
        )
        | _lease(_CONTROLLER, controller_lease)
        | _rights(
            _CONTROLLER, home, "discovery.k8s.io", "endpointslices",
            list="the gateway's pods, whose counters stand in for metrics (`Kube.addresses`)",
        )
        | _rights(_GATEWAY, fleets, *ours, list="models and queues", watch="their changes")
        | _rights(
            _GATEWAY, fleets, "discovery.k8s.io", "endpointslices",
            list="replicas: addresses, readiness, ceilings", watch="their changes",
        )
        | _rights(
            _GATEWAY, home, "discovery.k8s.io", "endpointslices",
            list="the gateway's other pods", watch="their changes",
        )
        | _lease(_GATEWAY, gateway_lease)
    )  # fmt: skip


def _lease(part: str, name: str) -> dict[Right, str]:
    home = Where.HOME
    return _rights(
        part, home, _LEASES, "leases", name, get="who leads", update="to lead, and to stop"
    ) | _rights(part, home, _LEASES, "leases", create="the first time; nameless when judged")


def granted(objects: Iterable[Object], home: str, part: str) -> dict[Right, set[str]]:
    """What the roles bound to a part's account give, and in which namespaces ("*": all)."""
    objects = list(objects)
    roles = {_key(one): one["rules"] for one in objects if one["kind"].endswith("Role")}
    found: dict[Right, set[str]] = {}
    for binding in objects:
        if not binding["kind"].endswith("RoleBinding") or not _is_for(binding, home, part):
            continue
        kind, namespace, _ = _key(binding)
        where = namespace or "*"
        for rule in roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]:
            for right in _of_rule(part, _where(where, home, rule), rule):
                found.setdefault(right, set()).add(where)
        assert binding["roleRef"]["kind"] == kind.removesuffix("Binding")
    return found


def _where(namespace: str, home: str, rule: Object) -> Where:
    if rule["resources"] == ["nodes"]:
        return Where.CLUSTER
    return Where.HOME if namespace == home else Where.FLEETS


def _of_rule(part: str, where: Where, rule: Object) -> Iterable[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(
                    part=part, where=where, group=group, resource=resource, verb=verb,
                    names=tuple(rule.get("resourceNames", ())),
                )  # fmt: skip


def _key(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _is_for(binding: Object, home: str, part: str) -> bool:
    (subject,) = binding["subjects"]
    assert subject["kind"] == "ServiceAccount"
    assert subject["namespace"] == home
    return bool(subject["name"].endswith(f"-{part}"))


def differences(wanted: Iterable[Right], granted: Iterable[Right]) -> list[str]:
    """Rights too many and too few."""
    want, have = set(wanted), set(granted)
    return [f"too many: {one}" for one in sorted(have - want)] + [
        f"too few: {one}" for one in sorted(want - have)
    ]
