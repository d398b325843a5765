"""What tests see of a cluster: the one of this machine, or one that the user names."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import binaries, images, lifecycle, processes
from tests.cluster.errors import ClusterError
from tests.cluster.layout import NODE_ADDRESS
from tests.cluster.machine import Machine, load

FOREIGN = "NEURONFLEET_KUBECONFIG"
"""Environment variable that names the kubeconfig of a cluster to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster, its clients, and what can be done with it."""

    kubeconfig: Path
    kubectl_program: Path
    helm_program: Path | None
    """None where it is not built: `helm()` builds it."""
    node_address: str | None
    """Address of this machine as pods see it; None where the cluster is elsewhere."""
    local: Machine | None
    """The parts on this machine, to break and to mend; None where the cluster is elsewhere."""

    @property
    def machine(self) -> Machine:
        """The parts on this machine, as they are now: a restart has changed their pids.

        Raises:
            ClusterError: the cluster is elsewhere, or gone.
        """
        if self.local is None:
            raise ClusterError(f"{FOREIGN} names a cluster whose parts this machine does not hold")
        now = load(self.local.layout)
        if now is None:
            raise ClusterError("the cluster is gone: `python -m tests.cluster up` starts it")
        return now

    def lacks(self, *wanted: str) -> str | None:
        """Why a test that needs these can't run here; None where it can.

        Args:
            wanted: of `local` (faults, real node, images of our own), `neuron` (a node with
                Neuron devices), `karpenter` (its API), `kwok` (fake nodes).
        """
        for capability in wanted:
            if not self._has(capability):
                return f"the cluster of {FOREIGN} has no {capability}"
        return None

    def _has(self, capability: str) -> bool:
        if self.local is not None:
            return capability != "karpenter" or self.local.karpenter
        if capability == "karpenter":
            return "nodepools.karpenter.sh" in self.kubectl("get", "crds", "-o", "name")
        if capability == "neuron":
            nodes = self.get("nodes")["items"]
            return any("aws.amazon.com/neuron" in one["status"]["allocatable"] for one in nodes)
        return False

    def kubectl(self, *arguments: str, input: str | None = None, timeout_s: float = 120.0) -> str:
        """What a kubectl command prints.

        Raises:
            ClusterError: it failed; with what it said.
        """
        entry = (str(self.kubectl_program), f"--kubeconfig={self.kubeconfig}")
        return processes.run(
            *entry, *arguments, given=input, timeout_s=timeout_s, env=self._client_env
        )

    def get(self, *arguments: str) -> dict[str, Any]:
        """One object, or a list with `items`, as `kubectl get` gives it."""
        document: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return document

    def find(self, *arguments: str) -> dict[str, Any] | None:
        """One object, or None where it is not there."""
        said = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        document: dict[str, Any] | None = json.loads(said) if said.strip() else None
        return document

    def apply(self, *manifests: Mapping[str, Any], namespace: str | None = None) -> None:
        """Apply manifests."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        where = ("-n", namespace) if namespace else ()
        self.kubectl("apply", *where, "-f", "-", input=json.dumps(document))

    def wait_for(
        self, predicate: Callable[[], bool], what: str = "what the test waits for",
        timeout: float = 60.0, every_s: float = 0.3,
    ) -> None:  # fmt: skip
        """Wait until `predicate` holds; a failed kubectl within it counts as not yet."""

        def holds() -> bool:
            try:
                return predicate()
            except ClusterError:
                return False

        processes.wait_for(holds, what, timeout, every_s=every_s)

    def import_image(self, archive: Path) -> None:
        """Bring an image archive to the real node."""
        images.import_archive(self.machine.layout, archive)

    def images(self) -> tuple[str, ...]:
        """Names of the real node's images."""
        return images.names(self.machine.layout)

    def helm(self, *arguments: str, timeout_s: float = 300.0) -> str:
        """What a helm command prints; helm is built on first use."""
        program = self.helm_program or binaries.program("helm")
        entry = (str(program), f"--kubeconfig={self.kubeconfig}")
        return processes.run(*entry, *arguments, timeout_s=timeout_s, env=self._client_env)

    @property
    def _client_env(self) -> dict[str, str]:
        return self.local.layout.client_env if self.local else {}


def open_cluster(*, with_karpenter: bool = True) -> Cluster:
    """The cluster that the user names, or the one of this machine, started where it is not."""
    named = os.environ.get(FOREIGN)
    if named:
        return _foreign(Path(named))
    return of_machine(lifecycle.up(with_karpenter=with_karpenter))


def of_machine(machine: Machine) -> Cluster:
    """The cluster whose parts this machine holds."""
    helm = binaries.directory("helm") / "bin/helm"
    return Cluster(
        kubeconfig=machine.layout.kubeconfig,
        kubectl_program=binaries.program("kubectl"),
        helm_program=helm if helm.exists() else None,
        node_address=NODE_ADDRESS,
        local=machine,
    )


def _foreign(kubeconfig: Path) -> Cluster:
    if not kubeconfig.is_file():
        raise ClusterError(f"{FOREIGN} = {kubeconfig}, must be a readable kubeconfig")
    kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
    return Cluster(
        kubeconfig=kubeconfig,
        kubectl_program=Path(kubectl) if kubectl else binaries.program("kubectl"),
        helm_program=Path(helm) if helm else None,
        node_address=None,
        local=None,
    )


def running(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are pods and each of them is running and ready."""
    return bool(pods) and all(
        any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
        for pod in pods
    )
