"""Up and down: a whole cluster from nothing, and nothing from whatever is left of one."""

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import (
    baseline,
    binaries,
    cgroups,
    control_plane,
    dns,
    karpenter,
    kwok,
    network,
    node,
    outside,
)
from tests.cluster.baseline import Baseline
from tests.cluster.errors import ClusterError
from tests.cluster.layout import Layout, default
from tests.cluster.machine import Machine, load

_PROGRAMS = (
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("openssl", "openssl"),
)
"""Programs and the Debian packages that bring them."""
_TOOLS = ("kubernetes", "etcd", "kwok", "coredns", "probe")
_CODE = (
    "binaries",
    "cgroups",
    "control_plane",
    "dns",
    "images",
    "karpenter",
    "kwok",
    "layout",
    "lifecycle",
    "machine",
    "network",
    "node",
    "offers",
    "outside",
    "pki",
    "processes",
)
"""Modules that shape a cluster: a change of one of them has `up` start it anew."""
_ALWAYS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "coredns")
_NODE = ("containerd", "kubelet", "kube-proxy")
_STOP_ORDER = ("karpenter", "kubelet", "kube-proxy", "kwok", "kube-scheduler")


def up(*, with_karpenter: bool = True) -> Machine:
    """The cluster, started where a healthy one of the same lock does not stand already.

    Raises:
        ClusterError: something is missing or would not start; the error says what to do.
    """
    layout = default()
    with _lock(layout):
        standing = stands(layout)
        if standing is not None:
            if with_karpenter and not standing.karpenter:
                karpenter.start(standing)
            return standing
        _require()
        tools = (*_TOOLS, "karpenter") if with_karpenter else _TOOLS
        for tool in tools:
            binaries.ensure(tool)
        _down(layout)
        try:
            return _start(layout, with_karpenter)
        except BaseException:
            # The logs that tell why go too, so the error has carried their last lines.
            if not os.environ.get("NEURONFLEET_CLUSTER_KEEP"):
                _down(layout)
            raise


def _start(layout: Layout, with_karpenter: bool) -> Machine:
    before = baseline.take(layout)
    layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.root.chmod(0o700)
    baseline.save(layout, before)
    machine = Machine(layout=layout, lock=lock())
    machine.take_ports()
    machine.save()
    cgroups.create()
    network.create(layout.root)
    pki = control_plane.create_pki(machine)
    control_plane.start(machine, pki)
    kwok.start(machine)
    dns.start(machine)
    node.start(machine, pki)
    if with_karpenter:
        karpenter.start(machine)
    machine.ready = True
    machine.save()
    return machine


def stands(layout: Layout | None = None) -> Machine | None:
    """The cluster that stands, if it is whole, healthy and of this lock."""
    machine = load(layout or default())
    if machine is None or not machine.ready or machine.lock != lock():
        return None
    parts = (*_ALWAYS, *_NODE, *(("karpenter",) if machine.karpenter else ()))
    if not all(machine.alive(name) for name in parts):
        return None
    try:
        # A busy machine may take its time to answer, and that is no reason to start anew.
        control_plane.wait_ready(machine, 20.0)
    except ClusterError:
        return None
    return machine


def lock() -> str:
    """16 hex digits over the programs and the code that a cluster is started from."""
    digest = hashlib.sha256()
    for name in _CODE:
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    for tool in binaries.TOOLS.values():
        digest.update(tool.lock.encode())
    return digest.hexdigest()[:16]


def down() -> list[str]:
    """End the cluster, whole or broken; what is left of it, which is nothing."""
    layout = default()
    with _lock(layout):
        before = baseline.load(layout) or _unknown(layout)
        _down(layout)
        return baseline.leftovers(layout, before)


def _unknown(layout: Layout) -> Baseline:
    # Without a record of the machine before, what is there now is not held against `down`, but
    # for what is the cluster's own beyond doubt: processes, groups and state.
    return baseline.take(layout)


def _down(layout: Layout) -> None:
    owner = network.bridge_owner()
    if owner and owner != str(layout.root):
        raise ClusterError(
            f"another cluster holds this machine: its state is {owner}; end it with its own "
            "XDG_STATE_HOME, or remove the bridge if nothing of it runs"
        )
    before = baseline.load(layout)
    machine = load(layout)
    if machine is not None:
        for name in _STOP_ORDER:
            machine.stop(name)
    cgroups.kill("kubepods")
    cgroups.kill()
    _unmount(layout)
    if owner is not None or before is not None:
        network.remove(before.rules if before else ())
    cgroups.remove()
    if before is not None:
        network.write_sysctls(before.sysctls)
        outside.remove(layout, before.paths)
    shutil.rmtree(layout.root, ignore_errors=True)


def _unmount(layout: Layout) -> None:
    inside = f"{layout.root}/"
    # The last mounted first; twice, since one may be mounted over another.
    for _ in range(2):
        for path in reversed([one for one in baseline.mounts() if one.startswith(inside)]):
            network.quiet("umount", "--no-mtab", "--lazy", path)
    mounted = [one for one in baseline.mounts() if one.startswith(inside)]
    if mounted:
        # Removing the state now would remove what others keep behind a mount.
        raise ClusterError(f"{mounted[0]} is still mounted: unmount it, then run `down` again")


def _require() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ClusterError(
            "a real node needs root on Linux: run as root, or name a cluster of your own with "
            "NEURONFLEET_KUBECONFIG"
        )
    missing = sorted({package for name, package in _PROGRAMS if shutil.which(name) is None})
    if not any((Path(one) / "bridge").exists() for one in ("/usr/lib/cni", "/opt/cni/bin")):
        missing.append("containernetworking-plugins")
    if missing:
        raise ClusterError(
            "missing Debian packages: apt-get install --no-install-recommends " + " ".join(missing)
        )
    network.require_kernel()
    binaries.require_go()


@contextmanager
def _lock(layout: Layout) -> Iterator[None]:
    layout.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (layout.root.parent / "cluster.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
