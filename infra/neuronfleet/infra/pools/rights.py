"""What the consumer of end notices may do in Kubernetes."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_eks as eks
from aws_cdk import aws_eks_v2 as eks_v2
from constructs import Construct

from neuronfleet.infra.stacks.facts import ClusterFacts

RBAC = "rbac.authorization.k8s.io"


def rights(
    scope: Construct, *, name: str, principal: str, fleets: Sequence[str], cluster: ClusterFacts
) -> None:
    """An IAM principal may read and patch these fleets, and nothing else in the cluster."""
    group = f"neuronfleet:{name}"
    eks.CfnAccessEntry(
        scope,
        "Access",
        cluster_name=cluster.name,
        principal_arn=principal,
        kubernetes_groups=[group],
        type="STANDARD",
    )
    eks_v2.KubernetesManifest(
        scope,
        "Rights",
        cluster=cluster.cluster,
        overwrite=True,
        manifest=manifests(name, group, fleets),
    )


def manifests(name: str, group: str, fleets: Sequence[str]) -> list[dict[str, Any]]:
    """A role over the fleets' names and its binding.

    Not a Role in each namespace: the namespaces may not be there yet, and a manifest that made them
    would take them away, fleets and all, with the pool.
    """
    common = {
        "apiVersion": f"{RBAC}/v1",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "neuronfleet"}},
    }
    rule = {
        "apiGroups": ["neuronfleet.dev"],
        "resources": ["servingfleets"],
        "resourceNames": sorted({fleet.split("/")[1] for fleet in fleets}),
        "verbs": ["get", "patch"],
    }
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": RBAC, "kind": "Group", "name": group}
    return [
        common | {"kind": "ClusterRole", "rules": [rule]},
        common | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]
