"""The one real node: containerd, kubelet and kube-proxy, with eight Neuron devices to count."""

import json
from datetime import datetime
from pathlib import Path

from tests.cluster import binaries, images, processes
from tests.cluster.dns import DOMAIN
from tests.cluster.layout import BRIDGE, NODE, NODE_ADDRESS, POD_SUBNET, Layout
from tests.cluster.machine import Machine
from tests.cluster.outside import NETWORK
from tests.cluster.pki import Pki

NEURON = "aws.amazon.com/neuron"
DEVICES = 8
"""Neuron devices that the scheduler counts on the node. There is none in truth."""
LABELS = {
    "node.kubernetes.io/instance-type": "inf2.xlarge",
    "topology.kubernetes.io/zone": "us-east-2a",
    "topology.kubernetes.io/region": "us-east-2",
    "karpenter.sh/capacity-type": "on-demand",
    "neuronfleet.dev/real": "true",
}
_READY_S = 90.0
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")


def start(machine: Machine, pki: Pki) -> None:
    """Start the node and wait until it is ready, with its devices."""
    _start_containerd(machine)
    images.import_probe(machine.layout)
    _start_kubelet(machine, pki)
    _start_proxy(machine)
    wait_ready(machine)


def wait_ready(machine: Machine, since: float = 0.0) -> None:
    """Wait until the node says so, at `since` (seconds since 1970) or later; renew its devices."""
    processes.wait_for(
        lambda: is_ready(machine, since),
        f"node {NODE} is not ready",
        _READY_S,
        machine.named("kubelet", "containerd", "kube-apiserver"),
    )
    # A kubelet without checkpoints takes away each device that no plugin of its own has announced.
    set_devices(machine, DEVICES)


def is_ready(machine: Machine, since: float = 0.0) -> bool:
    """Whether the node says that it is ready, and has said so at `since` or later."""
    found = machine.kubectl("get", "node", NODE, "--ignore-not-found", "-o", "json")
    conditions = json.loads(found)["status"].get("conditions", []) if found else []
    return any(
        one["type"] == "Ready"
        and one["status"] == "True"
        # The API keeps whole seconds.
        and datetime.fromisoformat(one["lastHeartbeatTime"]).timestamp() >= int(since)
        for one in conditions
    )


def set_devices(machine: Machine, count: int) -> None:
    """Have the scheduler count so many Neuron devices on the node."""
    change = {"status": {kind: {NEURON: str(count)} for kind in ("capacity", "allocatable")}}
    patch = ("patch", "node", NODE, "--subresource=status", "--type=merge", "-p")
    machine.kubectl(*patch, json.dumps(change))


def devices(machine: Machine) -> int:
    """How many Neuron devices the scheduler counts on the node."""
    status = json.loads(machine.kubectl("get", "node", NODE, "-o", "json"))["status"]
    return int(status["capacity"].get(NEURON, "0"))


def _start_containerd(machine: Machine) -> None:
    layout = machine.layout
    config = layout.config / "containerd.toml"
    config.write_text(_containerd_config(layout))
    network = layout.folder("cni") / "10-bridge.conflist"
    network.write_text(json.dumps(_cni_config(layout)))
    machine.start("containerd", "containerd", "--config", config)
    processes.wait_for(
        lambda: layout.containerd_socket.exists() and _served(layout),
        "containerd does not answer",
        30.0,
        machine.named("containerd"),
    )


def _served(layout: Layout) -> bool:
    return "SERVER" in images.ctr(layout, "version").upper()


def _cni_folder() -> Path:
    found = [Path(one) for one in _CNI_FOLDERS if (Path(one) / "bridge").exists()]
    return found[0] if found else Path(_CNI_FOLDERS[0])


def _containerd_config(layout: Layout) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{layout.folder("images")}"
state = "{layout.folder("run")}"

[grpc]
  address = "{layout.containerd_socket}"

[{cri}]
  sandbox_image = "{images.PROBE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  # Namespaces are mounted in the state, and nothing of them under /run.
  netns_mounts_under_state_dir = true
  [{cri}.cni]
    bin_dir = "{_cni_folder()}"
    conf_dir = "{layout.folder("cni")}"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [{cri}.containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{layout.folder("runc")}"
"""


def _cni_config(layout: Layout) -> dict[str, object]:
    ipam = {
        "type": "host-local",
        "dataDir": str(layout.folder("addresses")),
        # .1 is the bridge's own.
        "ranges": [[{"subnet": POD_SUBNET, "gateway": NODE_ADDRESS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        # A pod reaches its own Service.
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": ipam,
    }
    return {
        "cniVersion": "0.4.0",
        "name": NETWORK,
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _start_kubelet(machine: Machine, pki: Pki) -> None:
    layout = machine.layout
    config = layout.config / "kubelet.json"
    config.write_text(json.dumps(_kubelet_config(machine, pki), indent=1))
    labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
    machine.start(
        "kubelet",
        binaries.program("kubelet"),
        f"--config={config}",
        f"--kubeconfig={layout.config / 'kubelet.kubeconfig'}",
        f"--root-dir={layout.folder('kubelet')}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
        f"--node-labels={labels}",
        "--v=2",
    )


def _kubelet_config(machine: Machine, pki: Pki) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "port": machine.ports["kubelet"],
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": machine.ports["kubelet-health"],
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": pki.authority},
        },
        "tlsCertFile": pki.certificate("kubelet"),
        "tlsPrivateKeyFile": pki.key("kubelet"),
        "containerRuntimeEndpoint": f"unix://{machine.layout.containerd_socket}",
        "volumePluginDir": str(machine.layout.folder("volume-plugins")),
        "podLogsDir": str(machine.layout.folder("pods")),
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": DOMAIN,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/neuronfleet",
        "failCgroupV1": False,
        "failSwapOn": False,
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "5s",
        # A full disk of the developer's is no reason to evict the pods of a test.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    }


def _start_proxy(machine: Machine) -> None:
    config = machine.layout.config / "kube-proxy.json"
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(machine.layout.config / "kube-proxy.kubeconfig")},
        "mode": "iptables",
        "hostnameOverride": NODE,
        "clusterCIDR": POD_SUBNET,
        "bindAddress": NODE_ADDRESS,
        "healthzBindAddress": f"127.0.0.1:{machine.ports['proxy-health']}",
        "metricsBindAddress": f"127.0.0.1:{machine.ports['proxy-metrics']}",
        "nodePortAddresses": [POD_SUBNET],
        # A failed write of the rules is tried again after this, by default only after 30 s.
        "iptables": {"syncPeriod": "5s", "minSyncPeriod": "0s"},
        # The machine's own limits stay.
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
    config.write_text(json.dumps(document, indent=1))
    machine.start("kube-proxy", binaries.program("kube-proxy"), f"--config={config}")
