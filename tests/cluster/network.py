"""The cluster's bridge, its packet filter rules and the kernel settings that a node changes."""

import ipaddress
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.layout import BRIDGE, NODE_ADDRESS, POD_SUBNET, SERVICE_SUBNET
from tests.cluster.processes import run

SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What kubelet, kube-proxy and the bridge may set; put back by `down`."""

_FILTERS = ("iptables", "ip6tables")
_OURS = ("KUBE-", "neuronfleet-cluster")
"""Begin of kubelet's and kube-proxy's chains, and the comment of the harness's own rules."""
_PORT_MAP = "CNI-"
"""Begin of the chains for host ports: another user of CNI plugins has the same."""


def create(owner: Path) -> None:
    """Make the bridge with its address, and let its packets pass.

    Raises:
        ClusterError: another Kubernetes or another use of the addresses is in the way.
    """
    _check_free(owner)
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "link", "set", BRIDGE, "alias", str(owner))
    prefix = POD_SUBNET.partition("/")[2]
    run("ip", "address", "add", f"{NODE_ADDRESS}/{prefix}", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    write_sysctls({"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"})
    # Ahead of a firewall of the machine's own, which may drop what it forwards.
    for chain, way in (("FORWARD", "-i"), ("FORWARD", "-o"), ("INPUT", "-i")):
        comment = ("-m", "comment", "--comment", "neuronfleet-cluster")
        run("iptables", "-w", "-I", chain, way, BRIDGE, *comment, "-j", "ACCEPT")


def _check_free(owner: Path) -> None:
    holder = bridge_owner()
    if holder is not None:
        raise ClusterError(
            f"the bridge {BRIDGE} is held by {holder or 'something else'}: end that first "
            f"(this cluster's state is {owner})"
        )
    if any("KUBE-" in rule for rule in rules()):
        raise ClusterError("iptables has chains of another Kubernetes node: one machine, one node")
    wanted = [ipaddress.ip_network(one) for one in (POD_SUBNET, SERVICE_SUBNET)]
    for route in json.loads(run("ip", "-json", "-4", "route", "show") or "[]"):
        if route["dst"] != "default":
            taken = ipaddress.ip_network(route["dst"])
            if any(taken.overlaps(one) for one in wanted):
                raise ClusterError(
                    f"the route to {taken} by {route.get('dev')} overlaps the cluster's "
                    f"{POD_SUBNET} and {SERVICE_SUBNET}: remove it first"
                )


def require_kernel() -> None:
    """Check what a node needs of the kernel, and load it where it is a module.

    Raises:
        ClusterError: the kernel lacks it.
    """
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not bridged.exists():
        quiet("modprobe", "br_netfilter")
    if "overlay" not in Path("/proc/filesystems").read_text():
        quiet("modprobe", "overlay")
    if not bridged.exists() or "overlay" not in Path("/proc/filesystems").read_text():
        raise ClusterError("a node needs br_netfilter and overlayfs, and this kernel lacks them")


def bridge_owner() -> str | None:
    """State folder of the cluster that holds the bridge; None where there is no bridge."""
    path = Path("/sys/class/net") / BRIDGE
    return (path / "ifalias").read_text().strip() if path.exists() else None


def remove(rules_before: Sequence[str]) -> None:
    """Remove the bridge, the links on it and all rules of the cluster.

    Args:
        rules_before: what `rules` said before `up`; chains of CNI plugins stay if some were there.
    """
    shared = any(_PORT_MAP in rule for rule in rules_before)
    ours = _OURS if shared else (*_OURS, _PORT_MAP)
    ports = Path("/sys/class/net") / BRIDGE / "brif"
    if ports.exists():
        for port in sorted(ports.iterdir()):
            # The other end may be gone already, with its namespace.
            quiet("ip", "link", "delete", port.name)
        quiet("ip", "link", "delete", BRIDGE)
    for command in _FILTERS:
        if shutil.which(command):
            saved = run(f"{command}-save")
            cleaned = without(saved, ours)
            if cleaned != saved:
                run(f"{command}-restore", "-w", given=cleaned)


def quiet(*arguments: str) -> None:
    """Run a command that may fail."""
    try:
        run(*arguments)
    except ClusterError:
        return


def without(saved: str, marks: Sequence[str] = _OURS) -> str:
    """The output of iptables-save without the chains and rules that hold one of these marks."""
    lines = saved.splitlines(keepends=True)
    return "".join(line for line in lines if not any(mark in line for mark in marks))


def could_be_ours(rule: str) -> bool:
    """Whether a rule is of a kind that a node makes."""
    subnets = (POD_SUBNET.rpartition(".")[0], SERVICE_SUBNET.rpartition(".")[0], BRIDGE)
    return any(mark in rule for mark in (*_OURS, _PORT_MAP, *subnets))


def rules() -> tuple[str, ...]:
    """Every rule and chain of the packet filters, without counters and empty built-in chains."""
    found = []
    for command in _FILTERS:
        if shutil.which(command):
            for line in run(f"{command}-save").splitlines():
                rule = line.partition(" [")[0]
                chain = rule.startswith(":") and not rule.endswith(" ACCEPT")
                if chain or rule.startswith("-"):
                    found.append(f"{command} {rule}")
    return tuple(found)


def read_sysctls() -> dict[str, str]:
    """The present settings, of those that this kernel has."""
    paths = {name: Path("/proc/sys") / name for name in SYSCTLS}
    return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}


def write_sysctls(wanted: dict[str, str]) -> None:
    """Set what differs."""
    now = read_sysctls()
    for name, value in wanted.items():
        if name in now and now[name] != value:
            (Path("/proc/sys") / name).write_text(value)
