"""From a fleet to its Kubernetes objects: pure functions that give manifests as dicts."""

from neuronfleet.serving.controller.workloads.budgets import disruption_budget
from neuronfleet.serving.controller.workloads.deployments import deployment, service
from neuronfleet.serving.controller.workloads.names import (
    CEILING_LABEL,
    Manifest,
    object_name,
    owner_reference,
)
from neuronfleet.serving.controller.workloads.policies import network_policies
from neuronfleet.serving.controller.workloads.revisions import revision
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings

__all__ = [
    "CEILING_LABEL",
    "Manifest",
    "WorkloadSettings",
    "deployment",
    "disruption_budget",
    "network_policies",
    "object_name",
    "owner_reference",
    "revision",
    "service",
]
