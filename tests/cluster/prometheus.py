"""A real Prometheus beside the cluster, which finds pods as one inside it would."""

import contextlib
import json
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config

from neuronfleet.monitoring.rules import RuleSettings, render
from neuronfleet.serving.gateway.process import die_with
from tests.cluster import processes
from tests.cluster.cluster import Cluster
from tests.cluster.health import answers
from tests.cluster.layout import NODE

SCRAPE_S = 1.0
_WINDOW_S = 10.0
_LOOKBACK_S = 5.0

# A scraper without UTF-8 escaping gets vllm_x for vllm:x from prometheus_client 0.22 and later.
_COLON = {
    "source_labels": ["__name__"],
    "regex": "vllm_(.+)",
    "target_label": "__name__",
    "replacement": "vllm:$1",
}
_TARGETS = "pods.json"
_FOLLOW_S = 1.0


class Prometheus:
    """On the bridge's address, so that pods reach it too."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        host = cluster.node_address or "127.0.0.1"
        with socket.socket() as probe:
            probe.bind((host, 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self._host = host
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Write its files where they are not there yet, start it and wait until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        rules = RuleSettings(interval_s=SCRAPE_S, window_s=_WINDOW_S)
        (self._directory / "rules.yml").write_text(render(rules))
        (self._directory / "prometheus.yml").write_text(yaml.safe_dump(self._config()))
        self._write_targets([])
        self._stopping.clear()
        threading.Thread(target=self._follow, name="prometheus-targets", daemon=True).start()
        with (self._directory / "prometheus.log").open("ab") as log:
            self._child = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._directory}/prometheus.yml",
                    f"--storage.tsdb.path={self._directory}/data",
                    f"--web.listen-address={self._host}:{self.port}",
                    f"--query.lookback-delta={_LOOKBACK_S:g}s",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),
            )
        processes.wait_for(lambda: answers(f"{self.url}/-/ready"), "Prometheus is not ready", 30.0)

    def stop(self) -> None:
        """Stop it by its pid."""
        self._stopping.set()
        if self._child is not None:
            self._child.terminate()
            self._child.wait(20)
            self._child = None

    def _config(self) -> dict[str, Any]:
        interval = f"{round(SCRAPE_S * 1000)}ms"
        return {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "pods",
                    "file_sd_configs": [{"files": [_TARGETS], "refresh_interval": "1s"}],
                    "metric_relabel_configs": [_COLON],
                }
            ],
        }

    def _follow(self) -> None:
        """Keep the targets: this Prometheus is built without discovery in Kubernetes."""
        configuration = client.Configuration()
        config.load_kube_config(  # type: ignore[no-untyped-call]
            str(self._cluster.kubeconfig), client_configuration=configuration
        )
        pods = client.CoreV1Api(client.ApiClient(configuration))
        while not self._stopping.wait(_FOLLOW_S):
            # While the API server is away the targets stay as they were.
            with contextlib.suppress(urllib3.exceptions.HTTPError, client.ApiException):
                answer: Any = pods.list_pod_for_all_namespaces(
                    label_selector="app.kubernetes.io/component in (gateway, replica)",
                    _preload_content=False,
                    _request_timeout=5,
                )
                self._write_targets(targets(json.loads(answer.data)["items"]))

    def _write_targets(self, found: list[dict[str, Any]]) -> None:
        fresh = self._directory / f"{_TARGETS}.new"
        fresh.write_text(json.dumps(found))
        # Renamed, so that no half-written file is ever read.
        fresh.rename(self._directory / _TARGETS)


def targets(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is scraped: agents of gateways and replicas, labelled as the chart's PodMonitors do."""
    found = []
    for pod in pods:
        address, labels = pod["status"].get("podIP"), pod["metadata"]["labels"]
        real = pod["spec"].get("nodeName") == NODE
        if not address or not real or pod["status"].get("phase") != "Running":
            continue
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if labels["app.kubernetes.io/component"] == "gateway":
            found.append({"targets": [f"{address}:8090"], "labels": {"pod": name}})
            continue
        own = {
            "replica": name,
            "variant": labels["neuronfleet.dev/variant"],
            "fleet": f"{namespace}.{labels['neuronfleet.dev/fleet']}",
        }
        found.append({"targets": [f"{address}:8000"], "labels": own})
    return found
