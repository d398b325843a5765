"""Names, labels and owners of what a fleet is made of; see docs/decisions/kubernetes.md."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller.records import (
    FLEET_LABEL,
    MANAGED_LABEL,
    MANAGER,
    REVISION_LABEL,
    VARIANT_LABEL,
)

Manifest = dict[str, Any]
"""An object for server-side apply: only fields that the controller owns, and no nulls."""

COMPONENT_LABEL = "app.kubernetes.io/component"
COMPONENT = "replica"
CEILING_LABEL = "neuronfleet.dev/ceiling"
"""On Services, hence on their EndpointSlices: slots of each replica."""
RESTARTED_ANNOTATION = "neuronfleet.dev/restarted-at"
OWN_PREFIX = "neuronfleet.dev/"
_LONGEST = 63
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def object_name(fleet_name: str, variant_name: str, revision: str) -> str:
    """`<fleet>-<variant>-<revision>`, a DNS-1035 label as a Service's name has to be.

    What does not fit (a digit in front, more than 63 characters) is changed or cut, and a digest
    of both names takes its place. Two pairs that join alike, `a-b` + `c` and `a` + `b-c`, are
    told apart by the revision, which covers both names.
    """
    plain = f"{fleet_name}-{variant_name}"
    longest = _LONGEST - len(revision) - 1
    if len(plain) <= longest and _LABEL.fullmatch(plain):
        return f"{plain}-{revision}"
    digest = hashlib.sha256(f"{fleet_name}/{variant_name}".encode()).hexdigest()[:8]
    safe = re.sub(r"[^a-z0-9-]", "-", plain)
    safe = safe if safe[:1].isalpha() else f"f-{safe}"
    return f"{safe[: longest - len(digest) - 1].rstrip('-')}-{digest}-{revision}"


def fleet_labels(fleet: ServingFleet) -> dict[str, str]:
    """Labels of every object of a fleet; they select all its replicas."""
    return {MANAGED_LABEL: MANAGER, COMPONENT_LABEL: COMPONENT, FLEET_LABEL: fleet.name}


def selector(fleet: ServingFleet, variant: Variant, revision: str) -> dict[str, str]:
    """Labels that select the replicas of one revision of one variant."""
    return {
        FLEET_LABEL: fleet.name,
        VARIANT_LABEL: variant.name,
        REVISION_LABEL: revision,
    }


def labels(fleet: ServingFleet, variant: Variant, revision: str) -> dict[str, str]:
    """Labels of every child of one revision."""
    return fleet_labels(fleet) | selector(fleet, variant, revision)


def variant_path(fleet: ServingFleet, variant: Variant) -> str:
    """Where a variant stands in its fleet, as `spec.variants[0]`."""
    names = [one.name for one in fleet.variants]
    return f"spec.variants[{names.index(variant.name)}]"


def metadata(
    name: str, namespace: str, owner: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Metadata of a child; `owner` is an `owner_reference`."""
    return {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels),
        "ownerReferences": [dict(owner)],
    }


def owner_reference(fleet_object: Mapping[str, Any]) -> dict[str, Any]:
    """The reference by which the cluster deletes children after their ServingFleet."""
    return {
        "apiVersion": fleet_object["apiVersion"],
        "kind": fleet_object["kind"],
        "name": fleet_object["metadata"]["name"],
        "uid": fleet_object["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
