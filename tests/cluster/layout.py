"""Where the cluster keeps its state, and the addresses that it takes."""

import os
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

BRIDGE = "nfbr0"
NODE = "real-0"
NODE_ADDRESS = "10.244.0.1"
"""The bridge's address: of the node, of kube-apiserver, and of the machine as pods see it."""
POD_SUBNET = "10.244.0.0/24"
SERVICE_SUBNET = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
CGROUP = "neuronfleet"
"""Root of all control groups of the cluster: what runs is found by it, even after a crash."""

_LONGEST_SOCKET = 107
"""Bytes that Linux allows in the path of a socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files of one cluster."""

    root: Path

    @property
    def record(self) -> Path:
        """Processes, ports and locks."""
        return self.root / "cluster.json"

    @property
    def baseline(self) -> Path:
        """The machine as it was before `up`."""
        return self.root / "baseline.json"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.root / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One file a process."""
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def config(self) -> Path:
        """Configuration files written by `up`."""
        return self.root / "config"

    @property
    def client_env(self) -> dict[str, str]:
        """Environment of kubectl and helm: what they keep goes with the cluster."""
        kept = self.root / "clients"
        homes = {f"HELM_{kind}_HOME": str(kept / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        return {"KUBECACHEDIR": str(kept / "kube"), **homes}

    @property
    def containerd_socket(self) -> Path:
        """Where the node's containerd answers."""
        return self.root / "ctrd.sock"

    def folder(self, name: str) -> Path:
        """A folder within the state, made where it is not there."""
        path = self.root / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path


def default() -> Layout:
    """The layout of this user's cluster.

    Raises:
        ClusterError: the state's path is too long for the sockets in it.
    """
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    layout = Layout(root=Path(home) / "neuronfleet/cluster")
    socket = f"{layout.containerd_socket}.ttrpc"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        raise ClusterError(
            f"XDG_STATE_HOME = {home}, is too long: {socket} must have at most "
            f"{_LONGEST_SOCKET} bytes, as the path of a socket"
        )
    return layout
