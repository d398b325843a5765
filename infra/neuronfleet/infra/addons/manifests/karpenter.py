"""A pool that Karpenter owns: a NodePool and its EC2NodeClass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuronfleet.infra.charts.neuron import DEVICE
from neuronfleet.infra.pools.interfaces import interfaces
from neuronfleet.infra.settings import versions
from neuronfleet.infra.settings.model import Owner, Pool, Settings
from neuronfleet.infra.settings.offers import find
from neuronfleet.serving.api.hardware import catalog
from neuronfleet.serving.api.problems import SpecError

Manifest = dict[str, Any]

POOL_LABEL = "neuronfleet.dev/pool"
IDLE = "5m"
"""A node without replicas is kept for so long: a boot lasts longer, and a fleet that shrinks by
mistake grows again within a few rounds."""
_ROOT_MIB_PER_S = 500
"""Throughput of the root volume, where images are unpacked: gp3's 125 would take minutes more."""
_LNC_USER_DATA = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
set -euo pipefail
mkdir -p /opt/aws/neuron
echo "NEURON_LOGICAL_NC_CONFIG={size}" > /opt/aws/neuron/logical_nc_config
--//--
"""
"""Runs before nodeadm starts the kubelet: by deploy/eks/prerequisites.rst, Neuron SDK 2.32.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What nodes are launched with, besides their pool."""

    instance_profile: str
    subnets: Mapping[str, str]
    """Private subnet of each zone, by zone ID."""
    security_groups: Sequence[str]
    efa_security_group: str
    """Joined where a pool has EFA: all traffic among its members."""
    tags: Mapping[str, str]


def karpenter_pools(settings: Settings) -> tuple[Pool, ...]:
    """Pools that Karpenter owns."""
    return tuple(pool for pool in settings.pools if pool.owner is Owner.KARPENTER)


def node_pool(pool: Pool) -> Manifest:
    """What Karpenter may launch for a pool, how much of it, and when it takes nodes back.

    Only empty nodes are given up, and one whose image or class has changed where its pods let it
    go: without a terminationGracePeriod `karpenter.sh/do-not-disrupt` holds for as long as the
    controller sets it. Nodes do not expire: one that serves is never replaced for its age.
    """
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.name},
        "spec": {
            "template": {
                "metadata": {"labels": node_labels(pool)},
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": pool.name,
                    },
                    "requirements": _requirements(pool),
                    "taints": [{"key": DEVICE, "effect": "NoSchedule"}],
                    "expireAfter": "Never",
                },
            },
            "limits": {"nodes": str(pool.most), DEVICE: str(pool.most * _devices(pool))},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": IDLE,
                "budgets": [
                    {"nodes": "100%", "reasons": ["Empty"]},
                    {"nodes": "1", "reasons": ["Drifted"]},
                ],
            },
        },
    }


def node_class(pool: Pool, place: Place) -> Manifest:
    """How the nodes of a pool are made."""
    offer = find(pool.instance_type)
    spec: dict[str, Any] = {
        # The alias takes the Neuron build of this release for types with accelerators, and follows
        # the cluster's version.
        "amiSelectorTerms": [{"alias": f"al2023@{pool.ami_release}"}],
        "instanceProfile": place.instance_profile,
        "subnetSelectorTerms": [{"id": place.subnets[zone]} for zone in pool.zones],
        "securityGroupSelectorTerms": [{"id": group} for group in _groups(pool, place)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
        "blockDeviceMappings": [_root_volume(pool.root_gib)],
        "tags": {**place.tags, POOL_LABEL: pool.name},
    }
    if offer is not None and offer.store_disks:
        spec["instanceStorePolicy"] = "RAID0"
    if pool.efa and offer is not None:
        spec["networkInterfaces"] = [
            {
                "networkCardIndex": one.card,
                "deviceIndex": one.device,
                "interfaceType": str(one.kind),
            }
            for one in interfaces(offer, efa=True)
        ]
    else:
        # EC2 takes the flag only with a single interface; the subnets give out no addresses anyway.
        spec["associatePublicIPAddress"] = False
    if pool.logical_core_size is not None:
        spec["userData"] = _LNC_USER_DATA.format(size=pool.logical_core_size)
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool.name},
        "spec": spec,
    }


def node_labels(pool: Pool) -> dict[str, str]:
    """Labels by which the controller checks a variant's pins against a node.

    The SDK label says which SDK the node's driver belongs to, as far as a release note tells.
    """
    labels = {POOL_LABEL: pool.name, "neuronfleet.dev/ami": pool.ami_release}
    for sdk, (first, last) in versions.known_amis().items():
        if first <= pool.ami_release <= last:
            labels["neuronfleet.dev/sdk"] = sdk
    return labels


def _requirements(pool: Pool) -> list[dict[str, Any]]:
    allowed = {
        "node.kubernetes.io/instance-type": [pool.instance_type],
        "karpenter.sh/capacity-type": [str(pool.capacity)],
        "topology.k8s.aws/zone-id": list(pool.zones),
        "kubernetes.io/arch": ["amd64"],
        "kubernetes.io/os": ["linux"],
    }
    return [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]


def _devices(pool: Pool) -> int:
    known = catalog().get(pool.instance_type)
    if known is None or not known.is_neuron:
        raise SpecError(
            f"pools.{pool.name}.instanceType = {pool.instance_type}, "
            "must be a Neuron type of the hardware catalog"
        )
    return known.accelerators


def _groups(pool: Pool, place: Place) -> list[str]:
    return [*place.security_groups, *([place.efa_security_group] if pool.efa else [])]


def _root_volume(gib: int) -> dict[str, Any]:
    return {
        "deviceName": "/dev/xvda",
        "ebs": {
            "volumeType": "gp3",
            "volumeSize": f"{gib}Gi",
            "throughput": _ROOT_MIB_PER_S,
            "encrypted": True,
            "deleteOnTermination": True,
        },
    }
