"""Write which zone offers which instance type, from EC2's answers that moto recorded.

Runs where moto is (`.venv-infra/bin/python tools/build_offers.py`). Only facts that hold are kept:
moto's device memory of trn2 is wrong, so memory comes from the hardware catalog alone.
"""

import gzip
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import moto

from neuronfleet.infra.settings import offers

NEURON = ("inf2", "trn1", "trn1n", "trn2", "trn2u")
SYSTEM = ("m6i.large", "m6i.xlarge", "m6i.2xlarge", "m7i.large", "m7i.xlarge", "m7i.2xlarge")
MORE_USES = {
    "trn1.32xlarge": (
        "capacity-block",
        "Capacity Blocks for ML are sold for trn1 too by third-party reports of 2026; not read at"
        " AWS, and the recording lacks it",
    )
}
"""What the recording does not say of a type, with its source."""


def document() -> dict[str, Any]:
    """Every offered type, and every zone ID of each region."""
    root = Path(moto.__file__).parent / "ec2/resources"
    types = _read(root / "instance_types.json.gz")
    zones: dict[str, dict[str, list[str]]] = {}
    for file in sorted((root / "instance_type_offerings/availability-zone-id").iterdir()):
        for row in _read(file):
            region = zones.setdefault(file.name.removesuffix(".json.gz"), {})
            region.setdefault(row["InstanceType"], []).append(row["Location"])
    named = [name for name in types if name.split(".")[0] in NEURON or name in SYSTEM]
    return {
        "source": f"EC2's DescribeInstanceTypes and DescribeInstanceTypeOfferings as recorded in "
        f"moto {version('moto')}; `infra preflight` asks the account itself",
        "regions": {
            region: sorted({zone for offered in by_type.values() for zone in offered})
            for region, by_type in zones.items()
        },
        "types": [_type(name, types[name], zones) for name in sorted(named)],
    }


def _type(
    name: str, facts: dict[str, Any], zones: dict[str, dict[str, list[str]]]
) -> dict[str, Any]:
    network = facts["NetworkInfo"]
    disks = facts.get("InstanceStorageInfo", {}).get("Disks", [])
    more = MORE_USES.get(name)
    sources = {"source": "DescribeInstanceTypes, DescribeInstanceTypeOfferings"}
    return {
        "name": name,
        "vcpus": facts["VCpuInfo"]["DefaultVCpus"],
        "network_cards": network["MaximumNetworkCards"],
        "interfaces": network["MaximumNetworkInterfaces"],
        "efa_interfaces": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "store_disks": sum(disk["Count"] for disk in disks),
        "store_gb": sum(disk["Count"] * disk["SizeInGB"] for disk in disks),
        "uses": sorted({*facts["SupportedUsageClasses"], *(more[:1] if more else ())}),
        "zones": {region: sorted(by[name]) for region, by in zones.items() if name in by},
        **sources,
        **({"uses_source": more[1]} if more else {}),
    }


def _read(file: Path) -> Any:
    with gzip.open(file) as stream:
        return json.load(stream)


if __name__ == "__main__":
    target = Path(offers.__file__).with_name(offers.FILE)
    target.write_text(offers.dump(document()))
    print(f"wrote {target.name}")
