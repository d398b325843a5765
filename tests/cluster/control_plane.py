"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each with its own identity.

All listen on loopback but kube-apiserver, which listens on the bridge: pods reach it there, and so
does this machine, but no network beyond it.
"""

from tests.cluster import binaries, processes
from tests.cluster.layout import API_SERVICE, NODE, NODE_ADDRESS, SERVICE_SUBNET
from tests.cluster.machine import Machine
from tests.cluster.pki import Pki

LOST_NODE_S = 20
"""Without a sign of life for so long, a node is lost. The default, 50 s, is long for a test."""
EVICTION_S = 30
"""Pods of a lost node are evicted after it. The default, 300 s, is long for a test."""
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=10000")


def create_pki(machine: Machine) -> Pki:
    """Keys, certificates and kubeconfigs of every part and of the administrator."""
    pki = Pki(folder=machine.layout.folder("pki"))
    pki.create()
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    pki.issue("apiserver", "/CN=kube-apiserver", (NODE_ADDRESS, API_SERVICE, *names))
    pki.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    pki.issue("kubelet", f"/O=system:nodes/CN=system:node:{NODE}", (NODE_ADDRESS, NODE))
    pki.issue("admin", "/O=system:masters/CN=neuronfleet-admin")
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        pki.issue(name, f"/CN=system:{name}")
    config = machine.layout.folder("config")
    for name in ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        pki.kubeconfig(name, machine.server, config / f"{name}.kubeconfig")
    pki.kubeconfig("admin", machine.server, machine.layout.kubeconfig)
    return pki


def start(machine: Machine, pki: Pki) -> None:
    """Start the four and wait until the API is ready."""
    _start_etcd(machine)
    _start_apiserver(machine, pki)
    wait_ready(machine)
    _start_controller_manager(machine, pki)
    _start_scheduler(machine)


def wait_ready(machine: Machine, timeout_s: float = 60.0) -> None:
    """Wait until kube-apiserver says that it is ready."""
    processes.wait_for(
        lambda: machine.answers("get", "--raw", "/readyz"),
        "kube-apiserver is not ready",
        timeout_s,
        machine.named("kube-apiserver", "etcd"),
    )


def _start_etcd(machine: Machine) -> None:
    client, peer = (f"http://127.0.0.1:{machine.ports[name]}" for name in ("etcd", "etcd-peer"))
    machine.start(
        "etcd",
        binaries.program("etcd"),
        f"--data-dir={machine.layout.folder('etcd')}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # The data lasts as long as the cluster: what a crash of the machine loses is lost anyway.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
    )


def _start_apiserver(machine: Machine, pki: Pki) -> None:
    machine.start(
        "kube-apiserver",
        binaries.program("kube-apiserver"),
        f"--bind-address={NODE_ADDRESS}",
        f"--advertise-address={NODE_ADDRESS}",
        f"--secure-port={machine.ports['apiserver']}",
        f"--etcd-servers=http://127.0.0.1:{machine.ports['etcd']}",
        f"--service-cluster-ip-range={SERVICE_SUBNET}",
        f"--tls-cert-file={pki.certificate('apiserver')}",
        f"--tls-private-key-file={pki.key('apiserver')}",
        f"--client-ca-file={pki.authority}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={pki.key('accounts')}",
        f"--service-account-signing-key-file={pki.key('accounts')}",
        f"--kubelet-certificate-authority={pki.authority}",
        f"--kubelet-client-certificate={pki.certificate('kubelet-client')}",
        f"--kubelet-client-key={pki.key('kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        # As EKS has it: who asks for a Neuron device tolerates the taint of its name.
        "--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration",
        "--allow-privileged=true",
        f"--default-not-ready-toleration-seconds={EVICTION_S}",
        f"--default-unreachable-toleration-seconds={EVICTION_S}",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--enable-priority-and-fairness=false",
    )


def _start_controller_manager(machine: Machine, pki: Pki) -> None:
    name = "kube-controller-manager"
    machine.start(
        name,
        binaries.program(name),
        f"--kubeconfig={machine.layout.config / f'{name}.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={machine.ports['controller-manager']}",
        f"--root-ca-file={pki.authority}",
        f"--service-account-private-key-file={pki.key('accounts')}",
        f"--cluster-signing-cert-file={pki.authority}",
        f"--cluster-signing-key-file={pki.key('ca')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={LOST_NODE_S}s",
        *_UNLIMITED,
    )


def _start_scheduler(machine: Machine) -> None:
    name = "kube-scheduler"
    machine.start(
        name,
        binaries.program(name),
        f"--kubeconfig={machine.layout.config / f'{name}.kubeconfig'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={machine.ports['scheduler']}",
        "--leader-elect=false",
        *_UNLIMITED,
    )
