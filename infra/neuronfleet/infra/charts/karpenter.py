"""Karpenter: one version for the CRDs, the controller and the cluster that tests run against."""

from dataclasses import dataclass

from neuronfleet.infra.charts.chart import Chart, Values

VERSION = "1.14.3"
CONTROLLER = Chart(
    name="karpenter", version=VERSION, repository="oci://public.ecr.aws/karpenter/karpenter"
)
CRDS = Chart(
    name="karpenter-crd", version=VERSION, repository="oci://public.ecr.aws/karpenter/karpenter-crd"
)
NAMESPACE = "kube-system"
"""Its API calls then have the priority of the system's own."""
SERVICE_ACCOUNT = "karpenter"
METRICS_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """What the controller has to know of its cluster."""

    cluster_name: str
    cluster_endpoint: str
    interruption_queue: str


def values(install: Install) -> Values:
    """Values of the controller's chart.

    Two pods on the system nodes, one a node: what starts nodes may not wait for one of its own.
    Reservations are not its business here: blocks are node groups.
    """
    return {
        "replicas": 2,
        "serviceAccount": {"create": True, "name": SERVICE_ACCOUNT},
        "priorityClassName": "system-cluster-critical",
        "controller": {
            # As its scale tests recommend for some hundred nodes; CPU is not limited.
            "resources": {
                "requests": {"cpu": "500m", "memory": "1Gi"},
                "limits": {"memory": "1Gi"},
            },
            "metrics": {"port": METRICS_PORT},
        },
        # System nodes may all stand in one zone for a while: two pods there beat one.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "settings": {
            "clusterName": install.cluster_name,
            "clusterEndpoint": install.cluster_endpoint,
            "interruptionQueue": install.interruption_queue,
            "featureGates": {"reservedCapacity": False},
        },
    }
