"""`python -m tests.cluster build|up|down|status|env|fake COUNT`."""

import argparse
import os
import sys
import time

from tests.cluster import binaries, image_build, kwok, lifecycle
from tests.cluster.cluster import FOREIGN
from tests.cluster.errors import ClusterError
from tests.cluster.layout import default
from tests.cluster.machine import Machine, load


def main() -> int:
    """Carry out one command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=lifecycle.__doc__)
    parser.add_argument("command", choices=("build", "up", "down", "status", "env", "fake"))
    parser.add_argument("count", nargs="?", type=int, default=1, help="of `fake`: how many nodes")
    parser.add_argument("--without-karpenter", action="store_true", help="start without Karpenter")
    chosen = parser.parse_args()
    try:
        if chosen.command == "up":
            return _up(not chosen.without_karpenter)
        if chosen.command == "fake":
            return _fake(chosen.count)
        return {"build": _build, "down": _down, "status": _status, "env": _env}[chosen.command]()
    except ClusterError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2


def _build() -> int:
    if os.environ.get(FOREIGN):
        print(f"nothing to build: {FOREIGN} names a cluster that stands")
        return 0
    for name in binaries.TOOLS:
        binaries.ensure(name)
    image_build.build_all()
    return 0


def _up(with_karpenter: bool) -> int:
    began = time.monotonic()
    machine = lifecycle.up(with_karpenter=with_karpenter)
    print(f"the cluster stands after {time.monotonic() - began:.1f} s: {machine.server}")
    print(f"export KUBECONFIG={machine.layout.kubeconfig}")
    return 0


def _down() -> int:
    began = time.monotonic()
    left = lifecycle.down()
    if left:
        print("left on the machine:", *left, sep="\n  ", file=sys.stderr)
        return 1
    print(f"nothing of the cluster is left after {time.monotonic() - began:.1f} s")
    return 0


def _status() -> int:
    machine = load(default())
    if machine is None:
        print("no cluster")
        return 1
    for name, daemon in machine.daemons.items():
        print(f"{name:24} {'runs' if machine.alive(name) else 'ended':6} pid {daemon.pid}")
    healthy = lifecycle.stands() is not None
    print("healthy" if healthy else "not healthy, or of an older lock: `up` starts it anew")
    return 0 if healthy else 1


def _healthy() -> Machine:
    machine = lifecycle.stands()
    if machine is None:
        raise ClusterError("no healthy cluster: start one with `python -m tests.cluster up`")
    return machine


def _fake(count: int) -> int:
    names = kwok.add_nodes(_healthy(), count)
    print(f"{len(names)} fake nodes; their taint is {kwok.FAKE}=fake:NoSchedule")
    return 0


def _env() -> int:
    machine = _healthy()
    print(f"export KUBECONFIG={machine.layout.kubeconfig}")
    print(f"export CONTAINERD_ADDRESS={machine.layout.containerd_socket}")
    print("export CONTAINERD_NAMESPACE=k8s.io")
    print(f'export PATH={binaries.directory("kubernetes") / "bin"}:"$PATH"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
