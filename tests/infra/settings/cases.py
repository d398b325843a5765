"""The full example with some fields changed, and what is then wrong with it."""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
FULL = yaml.safe_load((ROOT / "examples/infra/us-east-2.yaml").read_text())
INF2, TRN1, SPOT, EFA, BLOCK = (f"pools[{index}]" for index in range(5))
GONE = object()
"""A field that is taken away."""
STANDING_NETWORK = {
    "vpcId": "vpc-0123456789abcdef0",
    "cidr": "10.0.0.0/16",
    "subnets": {f"use2-az{n}": f"subnet-0123456789abcdef{n}" for n in (1, 2, 3)},
}
STANDING_CLUSTER = {
    "name": "there",
    "version": "1.35",
    "endpoint": "https://there.eks.amazonaws.com",
    "certificateAuthority": "Y2VydA==",
    "securityGroupId": "sg-0123456789abcdef0",
}


@dataclass(frozen=True, slots=True)
class Case:
    """The full example with some fields changed, and the one problem that it then has."""

    name: str
    changes: Mapping[str, Any]
    path: str
    value: str
    """What the error shows of the value, whole or in part."""
    remedy: str
    """What it says would do, whole or in part."""


def standing_network(**changes: Any) -> dict[str, Any]:
    return {"network": {"existing": {**copy.deepcopy(STANDING_NETWORK), **changes}}}


def standing_cluster(**changes: Any) -> dict[str, Any]:
    return {**standing_network(), "cluster": {"existing": {**STANDING_CLUSTER, **changes}}}


def changed(document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with fields put or taken away by path, as pools[0].zones."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = re.findall(r"[^.\[\]]+(?=[.\[]|$)|\d+(?=\])", path)
        place: Any = document
        for step in parents:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is GONE:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return document
