"""Whether each zone offers the types that are to run there, asked of EC2 by zone ID."""

from collections.abc import Iterator
from functools import partial

from neuronfleet.infra.commands.checks.aws import Aws, asked, pages
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings.model import NewCluster, Settings


def findings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    """Every type in every zone that it is wanted in."""
    yield from asked("offering", settings.region, partial(_offerings, settings, aws))


def _offerings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    wanted = _wanted(settings)
    types = sorted({name for _, name, _ in wanted})
    found = pages(
        aws.client("ec2"),
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": types}],
    )
    offered: dict[str, set[str]] = {}
    for row in found:
        offered.setdefault(row["InstanceType"], set()).add(row["Location"])
    for path, name, zones in wanted:
        where = offered.get(name, set())
        missing = [zone for zone in zones if zone not in where]
        if missing:
            open_to = ", ".join(sorted(where)) or "no zone of this region"
            said = f"is not offered in {', '.join(missing)}; must be in {open_to}"
            yield fails("offering", f"{path} {name}", said)
        else:
            yield fine("offering", f"{path} {name}", ", ".join(zones))


def _wanted(settings: Settings) -> list[tuple[str, str, tuple[str, ...]]]:
    """Path, type and zones of each group of nodes."""
    found = [
        (f"pools[{index}]", pool.instance_type, pool.zones)
        for index, pool in enumerate(settings.pools)
    ]
    if isinstance(settings.cluster, NewCluster):
        nodes = settings.cluster.system_nodes
        found.append(("cluster.systemNodes", nodes.instance_type, settings.zones))
    return found
