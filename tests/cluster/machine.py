"""What runs of the cluster on this machine, remembered in its state folder."""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster import binaries, processes
from tests.cluster.errors import ClusterError
from tests.cluster.layout import NODE_ADDRESS, Layout
from tests.cluster.processes import Daemon

_PORTS = (
    "apiserver",
    "controller-manager",
    "dns-health",
    "etcd",
    "etcd-peer",
    "karpenter-health",
    "karpenter-metrics",
    "kubelet",
    "kubelet-health",
    "kwok",
    "proxy-health",
    "proxy-metrics",
    "scheduler",
)


@dataclass(slots=True, kw_only=True)
class Machine:
    """The parts of one cluster: their ports, and the processes with what starts them again."""

    layout: Layout
    lock: str = ""
    """Of the code and programs that it was started from."""
    karpenter: bool = False
    """Whether Karpenter was asked for."""
    ready: bool = False
    """Whether `up` came to its end."""
    ports: dict[str, int] = field(default_factory=dict)
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """URL of kube-apiserver."""
        return f"https://{NODE_ADDRESS}:{self.ports['apiserver']}"

    def save(self) -> None:
        """Write it down, so that another process can stop what this one started."""
        document = asdict(self)
        del document["layout"]
        aside = self.layout.record.with_suffix(".new")
        aside.write_text(json.dumps(document, indent=1))
        aside.rename(self.layout.record)

    def start(
        self, name: str, *arguments: str | Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start a process under a name; its log is logs/NAME.log."""
        self._start(
            Daemon(
                name=name,
                arguments=tuple(str(one) for one in arguments),
                log=str(self.layout.folder("logs") / f"{name}.log"),
                env=dict(env or {}),
            )
        )

    def again(self, name: str) -> None:
        """Start a stopped process as it was started before."""
        if not self.alive(name):
            self._start(self.daemons[name])

    def _start(self, daemon: Daemon) -> None:
        self.daemons[daemon.name] = processes.start(daemon)
        self.save()

    def stop(self, name: str, grace_s: float = 5.0) -> None:
        """End a process, if it runs."""
        if name in self.daemons:
            processes.stop(self.daemons[name], grace_s)

    def alive(self, name: str) -> bool:
        """Whether this process runs."""
        return name in self.daemons and processes.alive(self.daemons[name])

    def named(self, *names: str) -> list[Daemon]:
        """These processes, for wait_for to watch."""
        return [self.daemons[name] for name in names]

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as administrator."""
        program = str(binaries.program("kubectl"))
        config = f"--kubeconfig={self.layout.kubeconfig}"
        env = self.layout.client_env
        return processes.run(program, config, *arguments, given=given, env=env)

    def answers(self, *arguments: str) -> bool:
        """Whether this kubectl command succeeds."""
        try:
            self.kubectl("--request-timeout=2s", *arguments)
        except ClusterError:
            return False
        return True

    def take_ports(self) -> None:
        """Choose a free port for each part that listens."""
        held = []
        for name in _PORTS:
            # All are held until the last is chosen, so that no two are the same.
            one = socket.socket()
            one.bind(("127.0.0.1", 0))
            held.append(one)
            self.ports[name] = one.getsockname()[1]
        for one in held:
            one.close()


def load(layout: Layout) -> Machine | None:
    """The cluster that `layout` remembers; None where there is none or its record is unreadable."""
    try:
        document = json.loads(layout.record.read_text())
        daemons = {
            name: Daemon(**{**one, "arguments": tuple(one["arguments"])})
            for name, one in document.pop("daemons").items()
        }
        return Machine(layout=layout, daemons=daemons, **document)
    except (OSError, ValueError, TypeError, KeyError):
        return None
