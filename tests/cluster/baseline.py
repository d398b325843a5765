"""The machine before the cluster, and what of the cluster is left on it after."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster import cgroups, network, outside
from tests.cluster.layout import BRIDGE, Layout

_DAEMONS = frozenset(
    (
        "containerd",
        "containerd-shim-runc-v2",
        "coredns",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubelet",
        "kwok",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What `up` could change, as it was before; what others may change meanwhile is left out."""

    links: tuple[str, ...]
    mounts: tuple[str, ...]
    rules: tuple[str, ...]
    paths: tuple[str, ...]
    sysctls: dict[str, str]


def take(layout: Layout) -> Baseline:
    """The machine as it is now."""
    return Baseline(
        links=tuple(
            sorted(
                one.name
                for one in Path("/sys/class/net").iterdir()
                if one.name.startswith(("veth", BRIDGE))
            )
        ),
        mounts=tuple(one for one in mounts() if one.startswith(f"{layout.root}/")),
        rules=tuple(one for one in network.rules() if network.could_be_ours(one)),
        paths=outside.entries(),
        sysctls=network.read_sysctls(),
    )


def mounts() -> tuple[str, ...]:
    """Where something is mounted, in the order in which it was."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return tuple(line.split()[1].encode().decode("unicode_escape") for line in lines)


def save(layout: Layout, before: Baseline) -> None:
    """Keep it for `down`."""
    layout.baseline.write_text(json.dumps(asdict(before)))


def load(layout: Layout) -> Baseline | None:
    """What `up` kept; None where it is not there or was cut short."""
    try:
        document = json.loads(layout.baseline.read_text())
        return Baseline(
            **{name: tuple(document[name]) for name in ("links", "mounts", "rules", "paths")},
            sysctls=document["sysctls"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def leftovers(layout: Layout, before: Baseline) -> list[str]:
    """All that the cluster left on the machine, one line each; empty after a clean `down`."""
    now = take(layout)
    found = [f"process {pid}" for pid in sorted(processes_of(layout) | cgroups.members())]
    found += [f"control group {one}" for one in cgroups.groups()]
    for kind in ("links", "mounts", "rules", "paths"):
        had = set(getattr(before, kind))
        found += [f"{kind}: {one}" for one in getattr(now, kind) if one not in had]
    for name, value in now.sysctls.items():
        if before.sysctls.get(name, value) != value:
            found.append(f"sysctl {name} = {value}, was {before.sysctls[name]}")
    if layout.root.exists():
        found.append(f"state {layout.root}")
    return found


def processes_of(layout: Layout) -> set[int]:
    """Pids of programs of a cluster that were told to work in its state.

    They are in the cluster's control groups, and this finds what should have left them.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            program = (entry / "exe").readlink().name
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if program in _DAEMONS and f"{layout.root}/" in arguments:
            found.add(int(entry.name))
    return found
