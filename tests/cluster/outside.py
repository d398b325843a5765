"""What parts of a node write outside of the cluster's state, whatever they are told."""

import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from tests.cluster.layout import Layout

FOLDERS = tuple(
    Path(one)
    for one in (
        "/run/containerd/s",
        "/run/containerd",
        "/var/lib/cni/results",
        "/var/lib/cni",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet",
        "/var/log/containers",
    )
)
"""Folders that containerd, CNI and kubelet make, each before those that it lies in."""
NETWORK = "neuronfleet"
"""Name of the CNI network, with which its results begin."""


def entries() -> tuple[str, ...]:
    """These folders and what lies in them."""
    found: set[str] = set()
    for folder in FOLDERS:
        if folder.is_dir():
            found.update((str(folder), *(str(one) for one in folder.iterdir())))
    return tuple(sorted(found))


def remove(layout: Layout, had: Collection[str]) -> None:
    """Remove what is the cluster's, once it has ended, and the folders that are empty then.

    Args:
        layout: of the cluster.
        had: entries from before `up`, which stay.
    """
    for path in list(_of_cluster(layout)):
        if str(path) not in had:
            path.unlink(missing_ok=True)
    for folder in FOLDERS:
        if str(folder) not in had:
            # Another user of it may have come meanwhile: then it is not empty, and stays.
            with suppress(OSError):
                folder.rmdir()


def _of_cluster(layout: Layout) -> Iterator[Path]:
    sockets, results, plugins, logs = (
        Path(one)
        for one in (
            "/run/containerd/s",
            "/var/lib/cni/results",
            "/var/lib/kubelet/device-plugins",
            "/var/log/containers",
        )
    )
    yield from (one for one in sockets.glob("*") if one.is_socket() and not _listened(one))
    for one in results.glob(f"{NETWORK}-*-eth0"):
        identity = one.name.removeprefix(f"{NETWORK}-").removesuffix("-eth0")
        yield from (one, results / f"cni-loopback-{identity}-lo")
    yield plugins / "kubelet.sock"
    for one in logs.glob("*"):
        if one.is_symlink() and str(one.readlink()).startswith(f"{layout.root}/"):
            yield one


def _listened(path: Path) -> bool:
    # A shim that runs answers; what one left that was killed refuses.
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(path))
        except OSError:
            return False
    return True
