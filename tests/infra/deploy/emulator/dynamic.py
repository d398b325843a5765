"""Dynamic references ({{resolve:...}}), which moto leaves as they stand."""

import re

from tests.infra.deploy.emulator.registry import Refused

REFERENCE = re.compile(r"\{\{resolve:(?P<service>[a-z-]+):(?P<name>[^}]*)\}\}")
NEURON_RELEASE = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<kubernetes>\d\.\d+)/amazon-linux-2023/x86_64/neuron/"
    r"amazon-eks-node-al2023-x86_64-neuron-(?P=kubernetes)-v(?P<date>\d{8})/release_version"
)
"""AWS's public parameter of an AMI release by the AMI's name."""


def resolved(value: str) -> str:
    """The value with its references resolved; one that the emulator does not know is refused."""
    return REFERENCE.sub(_value, value)


def _value(found: re.Match[str]) -> str:
    release = NEURON_RELEASE.fullmatch(found["name"])
    if found["service"] != "ssm" or release is None:
        raise Refused(f"{found[0]}: the emulator knows no such parameter")
    # As AWS names releases: Kubernetes patch and date.
    return f"{release['kubernetes']}.2-{release['date']}"
