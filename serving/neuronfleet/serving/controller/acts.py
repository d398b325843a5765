"""What a step may ask of the API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Server-side apply of a whole manifest."""

    manifest: Mapping[str, Any]
    ours: bool
    """Whether the object is known as ours; one that is not is never taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Set the replicas of a Deployment whose manifest the spec no longer describes."""

    name: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotate:
    """Set a pod's annotations; None takes one away."""

    pod: str
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete a pod with its own grace, if it is still the one that was seen."""

    pod: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Let no more pods come to a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object of ours."""

    kind: str
    name: str


Act = Apply | Scale | Annotate | DeletePod | Cordon | Delete
