"""Small objects that several units need."""

from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]


def namespace(name: str, level: str) -> Manifest:
    """A namespace that enforces a level of PodSecurity: restricted, baseline or privileged."""
    modes = ("enforce", "warn")
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode in modes}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service_account(name: str, where: str, *, token: bool = False) -> Manifest:
    """A service account; its token is mounted only where a pod asks the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": where},
        "automountServiceAccountToken": token,
    }


def ingress_policy(
    name: str, where: str, *, labels: Mapping[str, str], rules: Sequence[Mapping[str, Any]]
) -> Manifest:
    """Who may reach these pods; nobody else."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": where},
        "spec": {
            "podSelector": {"matchLabels": dict(labels)},
            "policyTypes": ["Ingress"],
            "ingress": [dict(rule) for rule in rules],
        },
    }
