"""What can go wrong with a cluster, done on purpose and undone: always by pid, never by name."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import control_plane, images, node, processes
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.machine import Machine


def stop_kubelet(machine: Machine) -> None:
    """End kubelet: its pods go on, and after a while the node counts as lost."""
    machine.stop("kubelet")


def start_kubelet(machine: Machine) -> None:
    """Start kubelet again, wait for the node, and give it back its devices."""
    # The node may still say Ready from before: only what it says from now on counts.
    began = time.time()
    machine.again("kubelet")
    node.wait_ready(machine, since=began)


def stop_apiserver(machine: Machine) -> None:
    """End kube-apiserver: connections are refused, watches break."""
    machine.stop("kube-apiserver", grace_s=1.0)


def start_apiserver(machine: Machine) -> None:
    """Start kube-apiserver again and wait until it is ready."""
    machine.again("kube-apiserver")
    control_plane.wait_ready(machine)


@contextmanager
def apiserver_down(machine: Machine) -> Iterator[None]:
    """No kube-apiserver within the block: connections are refused."""
    stop_apiserver(machine)
    try:
        yield
    finally:
        start_apiserver(machine)


@contextmanager
def apiserver_paused(machine: Machine) -> Iterator[None]:
    """A kube-apiserver that accepts connections and answers nothing within the block."""
    daemon = machine.daemons["kube-apiserver"]
    processes.send(daemon, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.send(daemon, signal.SIGCONT)
        control_plane.wait_ready(machine)


def stop(machine: Machine, name: str) -> None:
    """End any other process of the cluster, such as karpenter or kube-controller-manager."""
    machine.stop(name)


def start(machine: Machine, name: str) -> None:
    """Start a process again as it was started before."""
    machine.again(name)


def kill_container(cluster: Cluster, namespace: str, pod: str, container: str = "") -> int:
    """Kill the main process of a pod's container, as the kernel does when memory ends; its pid.

    Args:
        cluster: a local one.
        namespace: of the pod.
        pod: its name.
        container: its name; the first where there is none.
    """
    statuses = cluster.get("pod", pod, "-n", namespace)["status"].get("containerStatuses", [])
    wanted = [one for one in statuses if container in ("", one["name"])]
    if not wanted or "running" not in wanted[0]["state"]:
        raise ClusterError(f"pod {namespace}/{pod} has no running container {container}".rstrip())
    identity = wanted[0]["containerID"].removeprefix("containerd://")
    for line in images.ctr(cluster.machine.layout, "tasks", "list").splitlines():
        name, pid, *_ = line.split()
        if name == identity:
            os.kill(int(pid), signal.SIGKILL)
            return int(pid)
    raise ClusterError(f"containerd runs no container {identity}: {json.dumps(wanted[0]['state'])}")
