"""`kubectl neuronfleet` through the real kubectl, against a real API server."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from neuronfleet.serving.api.status import FleetStatus
from tests.cluster.cluster import Cluster
from tests.controller_world import fleet_body
from tests.schema import check

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
FILE = ROOT / "serving/crds/servingfleets.neuronfleet.dev.yaml"
SOURCES = (ROOT / "serving", ROOT / "monitoring", ROOT)
STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "desired": 2,
    "serving": 1,
    "booting": 1,
    "ceiling": 4,
    "load": 11.5,
    "reason": "AtMaximum",
    "conditions": [
        {
            "type": "ScalingLimited",
            "status": "True",
            "reason": "AtMaximum",
            "message": "maxReplicas = 4 holds the fleet down",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "variants": [{"name": "inf2", "desired": 2, "ceiling": 4, "usdPerHour": 1.5164}],
    "decisions": [
        {
            "at": "2026-01-01T00:00:00Z",
            "reason": "AtMaximum",
            "desired": {"inf2": 2},
            "inputs": {"load": 11.5, "current": 1},
        }
    ],
}


class Plugin:
    """A fleet of a namespace, and kubectl with the plugin on its PATH."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        script = folder / "kubectl-neuronfleet"
        script.write_text(
            f'#!/bin/sh\nexec {sys.executable} -m neuronfleet.serving.controller.plugin.main "$@"\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        self._environment = os.environ | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(cluster.kubeconfig),
            "PYTHONPATH": os.pathsep.join(map(str, SOURCES)),
        }

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`kubectl neuronfleet ...`, as a user types it."""
        return subprocess.run(
            (str(self.cluster.kubectl_program), "neuronfleet", *arguments),
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def here(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The same in the test's namespace."""
        return self.run(*arguments, "-n", self.namespace, **environment)


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the committed CRD, which goes again where it was not there before."""
    name = yaml.safe_load(FILE.read_text())["metadata"]["name"]
    was_there = cluster.find("crd", name) is not None
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(FILE))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    yield cluster
    if not was_there:
        cluster.kubectl("delete", "crd", name)


@pytest.fixture
def plugin(served: Cluster, namespace: str, tmp_path: Path) -> Plugin:
    cluster = served
    # Advisory: a controller that another suite runs acts on nothing here.
    source = {"huggingFace": "a/b", "secret": "hub-token"}
    model = {"name": "m", "source": source, "architecture": "llama-3.1-8b"}
    body = fleet_body(mode="Advisory", model=model)
    body["metadata"] = {"name": "f", "namespace": namespace}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    patch = json.dumps({"status": STATUS})
    cluster.kubectl(
        "-n", namespace, "patch", "sf", "f", "--subresource=status", "--type=merge", "-p", patch
    )
    return Plugin(cluster, namespace, tmp_path)


@contextmanager
def prometheus(series: list[dict[str, Any]]) -> Iterator[str]:
    """One that answers every query with these series, by their names within the query."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            text = json.dumps({"data": {"result": series}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_why_tells_what_the_api_server_stores(plugin: Plugin) -> None:
    done = plugin.here("why", "f")

    assert done.returncode == 0, done.stderr
    assert f"{plugin.namespace}/f: 2 desired, 1 serving, 1 booting, unknown draining" in done.stdout
    assert "the spec's maximum allows no more" in done.stdout
    assert "maxReplicas = 4 holds the fleet down" in done.stdout
    assert "\x1b" not in done.stdout


def test_why_gives_the_same_as_json(plugin: Plugin) -> None:
    document = json.loads(plugin.here("why", "f", "--json").stdout)

    check(document, "kubectl-why")
    assert document["decisions"][0] | {"load": 11.5, "from": 1, "to": 2} == document["decisions"][0]
    assert FleetStatus.from_dict(STATUS).load == document["load"]


def test_a_fleet_that_is_not_there_is_a_wrong_use(plugin: Plugin) -> None:
    done = plugin.here("why", "nobody")

    assert done.returncode == 2
    assert f"no ServingFleet nobody in namespace {plugin.namespace}" in done.stderr


def test_top_shows_the_pods_of_the_fleet(plugin: Plugin) -> None:
    labels = {
        "app.kubernetes.io/managed-by": "neuronfleet",
        "neuronfleet.dev/fleet": "f",
        "neuronfleet.dev/variant": "inf2",
    }
    unplaced = {"containers": [{"name": "replica", "image": "none"}], "nodeSelector": {"no": "no"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "f-1", "labels": labels},
           "spec": unplaced}  # fmt: skip
    plugin.cluster.kubectl("-n", plugin.namespace, "apply", "-f", "-", input=json.dumps(pod))

    with prometheus([]) as url:
        done = plugin.here("top", NEURONFLEET_PROMETHEUS=url)

    assert done.returncode == 0, done.stderr
    assert "load unknown (no sample), 4 slots" in done.stdout
    cells = next(line for line in done.stdout.splitlines() if line.startswith("f-1")).split()
    assert cells[1:4] == ["inf2", "none", "booting"]
    waiting = plugin.here("doctor", "f")
    assert "f-1 waits" in waiting.stdout


def test_top_everywhere_finds_the_fleet(plugin: Plugin) -> None:
    with prometheus([]) as url:
        done = plugin.run("top", "-A", "--json", "--prometheus", url)

    check(json.loads(done.stdout), "kubectl-top")
    assert plugin.namespace in {one["namespace"] for one in json.loads(done.stdout)}


def test_the_doctor_finds_the_missing_secret_and_reads_none(plugin: Plugin) -> None:
    done = plugin.here("doctor", "f", "--json")

    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    check(document, "kubectl-doctor")
    said = {one["says"]: one["level"] for one in document["findings"]}
    assert said[f"Secret hub-token is not in namespace {plugin.namespace}"] == "fail"
    assert said["v1alpha1 as this plugin knows it"] == "ok"
    plugin.cluster.kubectl("-n", plugin.namespace, "create", "secret", "generic", "hub-token")
    assert "Secret hub-token is there" in plugin.here("doctor", "f").stdout


def test_the_doctor_needs_no_right_to_a_secrets_data_and_says_what_it_may_not_see(
    plugin: Plugin, tmp_path: Path
) -> None:
    kubectl, space = plugin.cluster.kubectl, plugin.namespace
    kubectl("-n", space, "create", "serviceaccount", "reader")
    rule = ("--verb=get,list", "--resource=servingfleets.neuronfleet.dev,pods,events")
    kubectl("-n", space, "create", "role", "reader", *rule)
    bound = ("--role=reader", f"--serviceaccount={space}:reader")
    kubectl("-n", space, "create", "rolebinding", "reader", *bound)
    token = kubectl("-n", space, "create", "token", "reader").strip()
    config = yaml.safe_load(plugin.cluster.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(config))

    done = plugin.here("doctor", "f", "--kubeconfig", str(tmp_path / "config"))

    assert "unknown: not allowed to get secrets" in done.stdout
    assert "unknown: not allowed to list nodes" in done.stdout
    assert "0 pods, each on a node" in done.stdout
