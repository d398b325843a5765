"""What a node is told at boot, beside what EKS tells it: local disks and logical core size.

A managed node group joins its own NodeConfig to user data that is a MIME archive.
"""

import base64

from neuronfleet.infra.settings.model import Pool
from neuronfleet.infra.settings.offers import Offer
from neuronfleet.serving.api import hardware

BOUNDARY = "//neuronfleet//"
LNC_FILE = "/opt/aws/neuron/logical_nc_config"
"""Read by Neuron's driver tools and device plugin (Neuron documentation, EKS prerequisites)."""
_RAID0 = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""


def user_data(pool: Pool, offer: Offer) -> str | None:
    """The archive in base64, as EC2 takes it; None where there is nothing to tell."""
    parts = []
    if offer.store_disks:
        # kubelet and containerd lie on the array: images of tens of GiB are read from it.
        parts.append(_part("application/node.eks.aws", _RAID0))
    if _other_core_size(pool):
        parts.append(_part('text/x-shellscript; charset="us-ascii"', _core_size(pool)))
    if not parts:
        return None
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{BOUNDARY}"\n\n'
    text = head + "".join(parts) + f"--{BOUNDARY}--\n"
    return base64.b64encode(text.encode()).decode()


def _other_core_size(pool: Pool) -> bool:
    """Whether the node needs to be told: its type's own size needs no file."""
    known = hardware.catalog().get(pool.instance_type)
    default = known.logical_core_size if known else None
    return pool.logical_core_size not in (None, default)


def _core_size(pool: Pool) -> str:
    folder = LNC_FILE.rpartition("/")[0]
    setting = f"NEURON_LOGICAL_NC_CONFIG={pool.logical_core_size}"
    return f"#!/bin/bash\nset -euo pipefail\nmkdir -p {folder}\necho {setting} > {LNC_FILE}\n"


def _part(kind: str, text: str) -> str:
    return f"--{BOUNDARY}\nContent-Type: {kind}\n\n{text}\n"
