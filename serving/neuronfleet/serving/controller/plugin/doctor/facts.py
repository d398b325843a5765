"""Everything that the doctor looks at, read once and before it thinks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from neuronfleet.serving.api import fleet as fleets
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.status import FleetStatus, StatusCondition
from neuronfleet.serving.controller.plugin.reader import Body, Items, Unseen

NOT_READ = Unseen(why="it was not read")


@dataclass(frozen=True, order=True, slots=True)
class Named:
    """An object that a spec names and somebody else has to make."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One fleet and what is around it, as the API server gave it."""

    now: float
    """Unix seconds by the API server's clock."""
    fleet: Body
    crd: Body | Unseen = NOT_READ
    controller_leases: Items = NOT_READ
    gateway_leases: Items = NOT_READ
    gateway_pods: Items = NOT_READ
    """Of all gateways in the cluster."""
    pods: Items = NOT_READ
    """Of the fleet's replicas."""
    deployments: Items = NOT_READ
    """Of the fleet."""
    nodes: Items = NOT_READ
    """Of the instance types that the spec names."""
    events: Items = NOT_READ
    """Warnings about pods of the namespace."""
    quotas: Items = NOT_READ
    budgets: Items = NOT_READ
    policies: Items = NOT_READ
    exists: Mapping[Named, bool | Unseen] = field(default_factory=dict)
    last_words: Mapping[str, str] = field(default_factory=dict)
    """Last line that a container wrote before it died, by pod."""

    @property
    def name(self) -> str:
        """The fleet's."""
        return str(self.fleet["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The fleet's."""
        return str(self.fleet["metadata"]["namespace"])

    @cached_property
    def spec(self) -> ServingFleet | SpecError:
        """The spec as the controller reads it, or why it cannot."""
        try:
            return fleets.from_object(self.fleet)
        except SpecError as wrong:
            return wrong

    @cached_property
    def status(self) -> FleetStatus:
        """What the controller wrote."""
        return FleetStatus.from_dict(self.fleet.get("status") or {})

    def condition(self, kind: str) -> StatusCondition | None:
        """A condition of the fleet; None where nobody wrote it."""
        return next((one for one in self.status.conditions if one.type == kind), None)


def named(fleet: Body) -> tuple[Named, ...]:
    """Secrets, claims and service accounts that a fleet's spec names, podTemplates included."""
    spec = fleet.get("spec") or {}
    source = (spec.get("model") or {}).get("source") or {}
    found: set[Named] = set()
    if _text(source, "serviceAccount"):
        found.add(Named("ServiceAccount", source["serviceAccount"]))
    if _text(source, "secret"):
        found.add(Named("Secret", source["secret"]))
    if _text(source, "pvc"):
        found.add(Named("PersistentVolumeClaim", source["pvc"].partition("/")[0]))
    for variant in spec.get("variants") or ():
        found.update(_within(variant.get("podTemplate") or {}))
    return tuple(sorted(found))


_BY_KEY = {
    "secretName": "Secret",
    "claimName": "PersistentVolumeClaim",
    "serviceAccountName": "ServiceAccount",
}
_REFERENCES = ("secretKeyRef", "secretRef", "imagePullSecrets")


def _within(part: Any) -> Iterator[Named]:
    """References anywhere in a pod template; optional ones may be absent."""
    if isinstance(part, list):
        for item in part:
            yield from _within(item)
    elif isinstance(part, Mapping) and part.get("optional") is not True:
        for key, value in part.items():
            if key in _BY_KEY and isinstance(value, str):
                yield Named(_BY_KEY[key], value)
            elif key in _REFERENCES:
                yield from _references(value)
            else:
                yield from _within(value)


def _references(value: Any) -> Iterator[Named]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping) and _text(one, "name") and one.get("optional") is not True:
            yield Named("Secret", one["name"])


def _text(mapping: Mapping[str, Any], key: str) -> bool:
    return isinstance(mapping.get(key), str) and bool(mapping[key])
