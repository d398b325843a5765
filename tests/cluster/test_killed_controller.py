"""The controller killed after each step of a reconcile, on a real API server."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from neuronfleet.serving.controller.steps import STEPS
from neuronfleet.serving.local.children import free_port
from tests.cluster.cluster import Cluster
from tests.cluster.faulty_controller import DIED
from tests.cluster.kwok import FAKE, fake_node
from tests.cluster.stack import CRD, is_ready

pytestmark = pytest.mark.cluster

EVERY_STEP = [*(name for name, _ in STEPS), "status"]


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[str]:
    """A fake node with devices: what is placed there runs within a second."""
    if why := cluster.lacks("kwok"):
        pytest.skip(why)
    name = f"killed-{secrets.token_hex(3)}"
    labels = {
        "node.kubernetes.io/instance-type": "inf2.xlarge",
        "karpenter.sh/capacity-type": "on-demand",
        "neuronfleet.dev/test": name,
    }
    cluster.apply(fake_node(name, labels=labels, capacity={"aws.amazon.com/neuron": "16"}))
    yield name
    cluster.kubectl("delete", "node", name, "--wait=false")


@pytest.fixture
def home(cluster: Cluster, namespace: str) -> str:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD))
    return namespace


def fleet(namespace: str, node: str, replicas: int) -> dict[str, Any]:
    template = {
        "nodeSelector": {"neuronfleet.dev/test": node},
        "tolerations": [{"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {"name": "f", "namespace": namespace},
        "spec": {
            "model": {
                "name": "m",
                "source": {"huggingFace": "a/b"},
                "architecture": "llama-3.1-8b",
            },
            "variants": [
                {
                    "name": "inf2",
                    "instanceType": "inf2.xlarge",
                    "backendGeneration": 1,
                    "tensorParallelDegree": 2,
                    "maxModelLen": 2048,
                    "maxNumSeqs": 4,
                    "podTemplate": {"spec": template},
                }
            ],
            "objective": {"ttftMs": 3000, "tpotMs": 80},
            "traffic": {
                "open": {"requestsPerSecond": 0.2},
                "inputTokens": 200,
                "outputTokens": 60,
            },
            "replicas": replicas,
        },
    }


@contextmanager
def controller(
    cluster: Cluster, namespace: str, directory: Path, die_after: str = ""
) -> Iterator["subprocess.Popen[bytes]"]:
    """A controller of this one namespace, with a Lease of its own: a killed one's has to end."""
    settings = {
        "prometheus": {"url": "http://127.0.0.1:9"},
        "lease": {"namespace": namespace, "name": f"c-{secrets.token_hex(3)}"},
        "namespaces": [namespace],
        "interval": "1s",
        "expectedBoot": "10s",
        "httpHost": "127.0.0.1",
        "httpPort": free_port(),
        "workloads": {
            "images": {"generation1": "neuronfleet.local/none:1"},
            "gateway": {"namespace": namespace, "labels": {"a": "gateway"}},
            "requestShare": 0,
        },
    }
    path = directory / "controller.yaml"
    path.write_text(yaml.safe_dump(settings))
    with (directory / "controller.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.faulty_controller", "--settings", str(path)]
            + (["--die-after", die_after] if die_after else []),
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=log,
            stderr=log,
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait(10)


def deed(cluster: Cluster, namespace: str) -> tuple[int, int, int]:
    """Pods that are ready, that were ever made, and that were ever deleted by a ReplicaSet."""
    pods = cluster.get("pods", "-n", namespace)["items"]
    told = cluster.get("events", "-n", namespace)["items"]

    def count(reason: str) -> int:
        return sum(
            one.get("count") or 1
            for one in told
            if one["reason"] == reason and one["involvedObject"]["kind"] == "ReplicaSet"
        )

    ready = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    return ready, count("SuccessfulCreate"), count("SuccessfulDelete")


@pytest.mark.parametrize("step", EVERY_STEP)
def test_whatever_the_step_another_controller_converges_and_does_nothing_twice(
    cluster: Cluster, home: str, node: str, tmp_path: Path, step: str
) -> None:
    def brought_to(replicas: int, expected: tuple[int, int, int]) -> None:
        manifest = json.dumps(fleet(home, node, replicas))
        cluster.kubectl("apply", "-f", "-", input=manifest)
        with controller(cluster, home, tmp_path, die_after=step) as faulty:
            assert faulty.wait(40) == DIED, (tmp_path / "controller.log").read_text()[-2000:]
        with controller(cluster, home, tmp_path):
            cluster.wait_for(
                lambda: (
                    deed(cluster, home) == expected
                    and not cluster.get("pods", "-n", home)["items"][expected[0] :]
                ),
                f"{expected}, found {deed(cluster, home)}",
                40,
            )

    brought_to(3, (3, 3, 0))
    brought_to(1, (1, 3, 2))
