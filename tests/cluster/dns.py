"""Names within the cluster: CoreDNS on the bridge, for Services and their pods."""

from tests.cluster import binaries, processes
from tests.cluster.health import answers
from tests.cluster.layout import NODE_ADDRESS
from tests.cluster.machine import Machine

DOMAIN = "cluster.local"


def start(machine: Machine) -> None:
    """Start CoreDNS and wait until it knows the cluster."""
    config = machine.layout.config / "Corefile"
    port = machine.ports["dns-health"]
    config.write_text(f"""{DOMAIN}:53 in-addr.arpa:53 {{
  bind {NODE_ADDRESS}
  errors
  ready 127.0.0.1:{port}
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {machine.layout.kubeconfig}
    # A test sees a changed Service at once.
    ttl 1
  }}
}}
""")
    machine.start("coredns", binaries.program("coredns"), "-conf", config)
    processes.wait_for(
        lambda: answers(f"http://127.0.0.1:{port}/ready"),
        "coredns is not ready",
        30.0,
        machine.named("coredns", "kube-apiserver"),
    )
