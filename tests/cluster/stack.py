"""The project as users install it: images on the node, chart, Prometheus, a fleet with streams."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.image_build import ImageRef
from tests.cluster.prometheus import Prometheus

CHART = Path("serving/chart")
CRD = Path("serving/crds/servingfleets.neuronfleet.dev.yaml")
RELEASE = "neuronfleet"
TIME_SCALE = 10
"""Emulated seconds a second of the emulated replicas here."""


@dataclass(slots=True, kw_only=True)
class Stack:
    """One installation."""

    cluster: Cluster
    prometheus: Prometheus
    images: Mapping[str, ImageRef]
    directory: Path
    namespace: str = field(default_factory=lambda: f"nf-{secrets.token_hex(3)}")
    """Of controller and gateway."""
    models: str = field(default_factory=lambda: f"models-{secrets.token_hex(3)}")
    """Of the fleets."""

    def values(self) -> dict[str, Any]:
        """The chart's values for this machine: quick rounds, everything on the real node."""
        here = {"neuronfleet.dev/real": "true"}
        return {
            "imageRegistry": "neuronfleet.local",
            "watchNamespaces": [self.models],
            # Applied apart: other tests of this cluster bring the same one.
            "crd": {"install": False},
            "prometheus": {"url": self.prometheus.url, "namespace": ""},
            "fleets": {
                "images": {
                    f"generation{number}": {
                        "repository": f"vllm-neuron-gen{number}",
                        "tag": self._tag(f"vllm-neuron-gen{number}"),
                    }
                    for number in (1, 2)
                },
                "requestShare": 0,
                "startupFloorSeconds": 60,
                "probePeriodSeconds": 2,
            },
            "controller": {
                "image": {"tag": self._tag("controller")},
                "intervalSeconds": 2,
                "expectedBootSeconds": 15,
                "patience": {
                    "capacityWaitSeconds": 20,
                    "capacityRetrySeconds": 60,
                    "unreadySeconds": 15,
                    "restarts": 3,
                    "slowBoots": 3,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": None},
                "nodeSelector": here,
            },
            "gateway": {
                "image": {"tag": self._tag("gateway")},
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": None},
                "spread": {"zone": "ScheduleAnyway", "host": "ScheduleAnyway"},
                "nodeSelector": here,
                "drainSeconds": 60,
            },
            "networkPolicy": {"apiServer": {"ports": [443, 6443]}},
        }

    def install(self) -> None:
        """Install or upgrade, and wait until everything is available."""
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD))
        if self.cluster.find("namespace", self.models) is None:
            self.cluster.kubectl("create", "namespace", self.models)
        path = self.directory / "values.yaml"
        path.write_text(yaml.safe_dump(self.values()))
        self.cluster.helm(
            "upgrade", "--install", RELEASE, str(CHART), "--namespace", self.namespace,
            "--create-namespace", "--values", str(path), "--wait", "--timeout", "120s",
        )  # fmt: skip

    def clear(self) -> None:
        """Delete all fleets and wait until their pods are gone."""
        self.cluster.kubectl("delete", "servingfleets", "--all", "-n", self.models, "--wait=false")
        self.cluster.wait_for(
            lambda: not self.cluster.get("pods", "-n", self.models)["items"], "the pods' end", 120
        )

    def remove(self) -> None:
        """Take everything away again."""
        self.cluster.kubectl("delete", "servingfleets", "--all", "-n", self.models, "--wait=false")
        self.cluster.kubectl("delete", "namespace", self.models, "--timeout=180s", timeout_s=200)
        self.cluster.helm("uninstall", RELEASE, "--namespace", self.namespace, "--wait")
        self.cluster.kubectl("delete", "namespace", self.namespace, "--timeout=180s", timeout_s=200)

    @property
    def url(self) -> str:
        """The endpoint of all models, as a client in the cluster reaches it."""
        found = self.cluster.get("service", "-n", self.namespace, f"{RELEASE}-gateway")
        return f"http://{found['spec']['clusterIP']}"

    def fleet(self, name: str, **spec: Any) -> dict[str, Any]:
        """A fleet of emulated replicas with 4 slots each, on the real node."""
        base: dict[str, Any] = {
            "model": {
                "name": f"model-{name}",
                # Of no known architecture, so that slots alone staff it: rates of a timing model
                # are those of real time, and the replicas here run faster.
                "source": {"huggingFace": "example/model"},
            },
            "variants": [variant()],
            "objective": {"ttftMs": 3000, "tpotMs": 80},
            "traffic": {
                "open": {"requestsPerSecond": 0.2},
                "inputTokens": 200,
                "outputTokens": 60,
            },
            "scaling": {"minReplicas": 1, "maxReplicas": 3, "forecast": "none"},
            "drain": {"timeout": "60s"},
            "queue": {"timeout": "60s"},
            "metrics": {"maxAge": "20s"},
        }
        made = {key: value for key, value in (base | spec).items() if value is not None}
        return {
            "apiVersion": "neuronfleet.dev/v1alpha1",
            "kind": "ServingFleet",
            "metadata": {"name": name, "namespace": self.models},
            "spec": made,
        }

    def apply(self, fleet: Mapping[str, Any]) -> None:
        """kubectl apply."""
        self.cluster.kubectl("apply", "-f", "-", input=json.dumps(fleet))

    def status(self, name: str) -> dict[str, Any]:
        """A fleet's status."""
        found = self.cluster.get("servingfleet", "-n", self.models, name)
        status: dict[str, Any] = found.get("status", {})
        return status

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One of its conditions."""
        found = self.status(name).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def events(self, name: str) -> list[str]:
        """Reasons of the Events told of a fleet."""
        found = self.cluster.get("events", "-n", self.models)["items"]
        return [one["reason"] for one in found if one["involvedObject"]["name"] == name]

    def pods(self, name: str) -> list[dict[str, Any]]:
        """A fleet's pods."""
        selector = f"neuronfleet.dev/fleet={name}"
        items: list[dict[str, Any]] = self.cluster.get("pods", "-n", self.models, "-l", selector)[
            "items"
        ]
        return items

    def serving(self, name: str) -> list[str]:
        """Names of its pods that are ready and stay."""
        return [
            pod["metadata"]["name"]
            for pod in self.pods(name)
            if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
        ]

    def await_serving(self, name: str, count: int, timeout: float = 90.0) -> None:
        """Wait until exactly `count` replicas serve and none leaves."""
        self.cluster.wait_for(
            lambda: len(self.serving(name)) == count == len(self.pods(name)),
            f"{count} replicas of {name}",
            timeout,
        )

    def await_condition(
        self, name: str, kind: str, status: str, reason: str | None = None, timeout: float = 60.0
    ) -> dict[str, Any]:
        """Wait for a condition; it is returned."""

        def holds() -> bool:
            found = self.condition(name, kind)
            return found.get("status") == status and reason in (None, found.get("reason"))

        self.cluster.wait_for(holds, f"{kind}={status} {reason or ''} of {name}", timeout)
        return self.condition(name, kind)

    def _tag(self, name: str) -> str:
        return self.images[name].reference.rsplit(":", 1)[1]


def variant(name: str = "inf2", **more: Any) -> dict[str, Any]:
    """An emulated variant that boots in a second and runs on the real node."""
    base = {
        "name": name,
        "instanceType": "inf2.xlarge",
        "backendGeneration": 1,
        "tensorParallelDegree": 2,
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
        "env": {"EMULATOR_TIME_SCALE": str(TIME_SCALE), "EMULATOR_BOOT_SECONDS": "10"},
        "podTemplate": {"spec": {"nodeSelector": {"neuronfleet.dev/real": "true"}}},
    }
    return base | more


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's Ready condition holds."""
    found = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)
