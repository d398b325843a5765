"""The cluster's own control groups: each of its processes is in one, none is missed or mistaken."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cluster.layout import CGROUP

_ROOT = Path("/sys/fs/cgroup")
_KINDS = ("cgroup", "cgroup2")
"""Beside the hierarchies of v1 runc uses an empty one of v2, where the machine has one."""


def unified() -> bool:
    """Whether the machine has the one hierarchy of cgroup v2 alone."""
    return (_ROOT / "cgroup.controllers").exists()


def hierarchies() -> tuple[Path, ...]:
    """Every mounted hierarchy that holds groups of the cluster."""
    if unified():
        return (_ROOT,)
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return tuple(Path(mount[1]) for mount in mounts if mount[2] in _KINDS)


def create() -> None:
    """Make the cluster's root in every hierarchy; kubelet makes the pods' groups below it."""
    if unified():
        (_ROOT / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +pids +io")
    for hierarchy in hierarchies():
        group = hierarchy / CGROUP
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            # A group of the cpuset controller starts without a core, and would run nothing.
            if not unified() and (group / name).exists():
                (group / name).write_text((hierarchy / name).read_text())
    _daemons().mkdir(exist_ok=True)


def daemons_file() -> Path:
    """Write a pid here and that process, with its later children, is the cluster's."""
    return _daemons() / "cgroup.procs"


def _daemons() -> Path:
    # pids limits nothing by itself, and a process leaves its memory group where it was born.
    found = [one for one in hierarchies() if one.name == "pids"] or list(hierarchies())
    return found[0] / CGROUP / "daemons"


def members(part: str = "") -> frozenset[int]:
    """Pids of all processes within the cluster's groups, or within one part of them."""
    pids: set[int] = set()
    for group in groups():
        if part in str(group):
            try:
                pids.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
            except OSError:
                continue
    return frozenset(pids)


def groups() -> Iterator[Path]:
    """The cluster's groups, the innermost first."""
    for hierarchy in hierarchies():
        for path, _, _ in os.walk(hierarchy / CGROUP, topdown=False):
            yield Path(path)


def kill(part: str = "", within_s: float = 20.0) -> None:
    """End every process within, until none is left."""
    deadline = time.monotonic() + within_s
    while (pids := members(part)) and time.monotonic() < deadline:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def remove(within_s: float = 10.0) -> None:
    """Remove the groups, which must be empty."""
    deadline = time.monotonic() + within_s
    while left := list(groups()):
        for group in left:
            # The kernel lets go of a group a moment after its last process ended.
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)
