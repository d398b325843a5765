"""CustomResourceDefinition of ServingFleet: the spec as the parser asks, the status as stored."""

from dataclasses import fields
from datetime import datetime
from typing import Any, get_args, get_origin

import yaml

from neuronfleet.serving.api.descriptions import attribute_docs, sentence
from neuronfleet.serving.api.fleet import API_VERSION, NAME
from neuronfleet.serving.api.schema import ordered, spec_schema
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.api.stored import hints, names, required

GROUP, VERSION = API_VERSION.split("/")
PLURAL = "servingfleets"
_PLAIN: dict[Any, dict[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
}
_HEADER = "# Generated from serving.api by `make crd`. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: a rule that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render() -> str:
    """The file that `kubectl apply` reads."""
    text: str = yaml.dump(definition(), Dumper=_Dumper, sort_keys=False, width=100)
    return _HEADER + text


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of ServingFleet."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "ServingFleet",
                "listKind": "ServingFleetList",
                "plural": PLURAL,
                "singular": "servingfleet",
                "shortNames": ["sf"],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": _columns(),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": object_schema()},
    }


def _columns() -> list[dict[str, str]]:
    ready = '.status.conditions[?(@.type=="Ready")].status'
    return [
        {"name": name, "type": kind, "jsonPath": path}
        for name, kind, path in (
            ("Ready", "string", ready),
            ("Desired", "integer", ".status.desired"),
            ("Serving", "integer", ".status.serving"),
            ("Standby", "integer", ".status.standby"),
            ("Ceiling", "integer", ".status.ceiling"),
            ("Load", "number", ".status.load"),
            ("$/h", "number", ".status.usdPerHour"),
            ("Reason", "string", ".status.reason"),
            ("Age", "date", ".metadata.creationTimestamp"),
        )
    ]


def object_schema() -> dict[str, Any]:
    """The schema of a whole object."""
    name = {"type": "string", "maxLength": 63, "pattern": f"^({NAME})$"}
    return {
        "description": "One model's fleet: its traffic, its objective and how it may be scaled.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "ServingFleet."},
            # A fleet's name is part of names and labels of all that it owns.
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": spec_schema(),
            "status": status_schema(FleetStatus),
        },
    }


def status_schema(cls: Any) -> dict[str, Any]:
    """The structural schema of a `Stored` dataclass, by its types."""
    docs = attribute_docs(cls)
    properties = {}
    for one in fields(cls):
        schema = _of(hints(cls)[one.name]) | _limits(one.metadata)
        properties[names(cls)[one.name]] = ordered(
            schema | {"description": sentence(docs[one.name])}
        )
    schema = {"type": "object", "description": sentence((cls.__doc__ or "").split("\n")[0])}
    if needed := required(cls):
        schema["required"] = list(needed)
    return ordered(schema | {"properties": properties})


def _of(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of(get_args(hint)[0])}
    if get_origin(hint) is not None:
        return {"type": "object", "additionalProperties": _of(get_args(hint)[1])}
    return dict(_PLAIN[hint]) if hint in _PLAIN else status_schema(hint)


def _limits(metadata: Any) -> dict[str, Any]:
    limits = dict(metadata)
    if key := limits.pop("key", None):
        limits["x-kubernetes-list-type"] = "map"
        limits["x-kubernetes-list-map-keys"] = [key]
    return limits
