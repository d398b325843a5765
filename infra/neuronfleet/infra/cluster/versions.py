"""EKS add-ons and kubectl by Kubernetes version, all pinned.

The builds are those that EKS 1.33 to 1.36 offered together in 2026, as public configurations of
such clusters have them; `aws eks describe-addon-versions` lists newer ones (docs/infra.md).
No storage driver: no pod of the project claims a volume. No metrics server: fleets are scaled by
the controller, and devices are seen by neuron-monitor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from neuronfleet.serving.api.problems import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What one Kubernetes version goes with."""

    coredns: str
    kube_proxy: str
    kubectl: str
    """Of the layer; within one minor version of the cluster's."""
    vpc_cni: str = "v1.22.4-eksbuild.3"
    pod_identity_agent: str = "v1.3.10-eksbuild.3"


KNOWN: Mapping[str, Versions] = {
    "1.33": Versions(
        coredns="v1.12.4-eksbuild.29", kube_proxy="v1.33.10-eksbuild.21", kubectl="1.34"
    ),
    "1.34": Versions(
        coredns="v1.12.4-eksbuild.29", kube_proxy="v1.34.6-eksbuild.21", kubectl="1.34"
    ),
    "1.35": Versions(
        coredns="v1.13.2-eksbuild.21", kube_proxy="v1.35.3-eksbuild.21", kubectl="1.35"
    ),
    "1.36": Versions(
        coredns="v1.14.3-eksbuild.14", kube_proxy="v1.36.0-eksbuild.17", kubectl="1.35"
    ),
}


def of(kubernetes: str) -> Versions:
    """What goes with a Kubernetes version.

    Raises:
        SpecError: nothing is known of it.
    """
    if kubernetes not in KNOWN:
        raise SpecError(f"cluster.version = {kubernetes}, must be one of {', '.join(KNOWN)}")
    return KNOWN[kubernetes]
