"""The project's images as real pods, under the restricted security of every pod of a fleet."""

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.serving.emulator.tokens import expected_text
from tests.cluster.buildah import Buildah
from tests.cluster.cluster import Cluster, running
from tests.cluster.image_build import ImageRef, build_all, cache
from tests.cluster.manifests import ON_REAL

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PROMPT = "is anybody there"
TIME_SCALE = 20


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> dict[str, ImageRef]:
    """All images, built and on the real node."""
    if reason := cluster.lacks("local"):
        pytest.skip(reason)
    built = build_all()
    for ref in built.values():
        cluster.import_image(ref.archive)
    return built


def pod(name: str, image: str, **container: Any) -> dict[str, Any]:
    """A restricted pod of one container on the real node."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    mounts = {"tmp": "/tmp", "models": "/models", "shm": "/dev/shm"}
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "models", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    main = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "securityContext": security,
        "volumeMounts": [{"name": one, "mountPath": path} for one, path in mounts.items()],
        **container,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [main],
            "nodeSelector": dict(ON_REAL),
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
                # The volumes of a pod belong to root: its group may write.
                "fsGroup": 65532,
            },
            "terminationGracePeriodSeconds": 60,
            "volumes": volumes,
        },
    }


def replica(name: str, image: str, generation: int) -> dict[str, Any]:
    """A replica's pod as the controller makes it: settings, probes, drain."""
    settings = {
        "model": {"name": "llama", "source": {"kind": "huggingFace", "location": "org/llama"}},
        "variant": {
            "name": "v",
            "generation": generation,
            "logicalCoreSize": generation,
            "maxModelLen": 2048,
            "maxNumSeqs": 4,
            "kvCache": {"blocks": 256 if generation == 2 else None},
        },
        "canary": {"prompt": PROMPT, "maxTokens": 3, "expect": f"^{expected_text(PROMPT, 3)}$"},
        "port": 8000,
    }
    variables = {
        "NEURONFLEET_REPLICA": json.dumps(settings),
        "EMULATOR_TIME_SCALE": str(TIME_SCALE),
        "EMULATOR_BOOT_SECONDS": str(2 * TIME_SCALE),
    }
    probe = {
        "exec": {"command": ["neuronfleet-replica", "canary", "--timeout", "4"]},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
    }
    drain = ["neuronfleet-replica", "drain", "--timeout", "50", "--settle", "1"]
    return pod(
        name,
        image,
        env=[{"name": key, "value": value} for key, value in variables.items()],
        startupProbe=probe | {"failureThreshold": 60},
        readinessProbe=probe | {"failureThreshold": 2},
        lifecycle={"preStop": {"exec": {"command": drain}}},
    )


def start(cluster: Cluster, namespace: str, manifest: dict[str, Any]) -> str:
    """Start a replica, wait until it is ready, and give its URL."""
    cluster.apply(manifest, namespace=namespace)
    name = manifest["metadata"]["name"]
    cluster.wait_for(lambda: ready(cluster, namespace, name), f"{name} to be ready", timeout=90)
    address = cluster.get("pod", name, "-n", namespace)["status"]["podIP"]
    return f"http://{address}:8000"


def ready(cluster: Cluster, namespace: str, name: str) -> bool:
    return running([cluster.get("pod", name, "-n", namespace)])


def leaving(cluster: Cluster, namespace: str, name: str) -> bool:
    return "deletionTimestamp" in cluster.get("pod", name, "-n", namespace)["metadata"]


def post(url: str, body: dict[str, Any]) -> Any:
    """The answer, still open."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=60)


def ask(url: str, tokens: int) -> str:
    body = {"model": "llama", "prompt": PROMPT, "max_tokens": tokens}
    with post(f"{url}/v1/completions", body) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
    return text


def test_a_build_leaves_no_mount_and_no_working_container(images: dict[str, ImageRef]) -> None:
    storage = Buildah(root=cache() / "buildah")

    containers = storage("containers", "--quiet")
    storage.unmount()

    assert not containers
    assert str(storage.root) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("generation", [1, 2])
def test_a_replica_boots_restricted_and_is_ready_once_it_answers_its_canary(
    cluster: Cluster, namespace: str, images: dict[str, ImageRef], generation: int
) -> None:
    reference = images[f"vllm-neuron-gen{generation}"].reference
    manifest = replica(f"gen{generation}", reference, generation)

    url = start(cluster, namespace, manifest)

    assert ask(url, 5) == expected_text(PROMPT, 5)
    log = cluster.kubectl("logs", f"gen{generation}", "-n", namespace)
    events = [json.loads(line)["event"] for line in log.splitlines() if line.startswith("{")]
    assert events[:3] == ["snapshot-start", "snapshot-end", "exec"]
    assert "emulated" in log


def test_a_deleted_replica_ends_its_streams_before_it_ends(
    cluster: Cluster, namespace: str, images: dict[str, ImageRef]
) -> None:
    url = start(cluster, namespace, replica("leaving", images["vllm-neuron-gen1"].reference, 1))
    body = {"model": "llama", "prompt": PROMPT, "max_tokens": 1900, "stream": True}
    lines: list[bytes] = []
    with post(f"{url}/v1/completions", body) as stream:
        reader = threading.Thread(target=lambda: lines.extend(stream))
        reader.start()

        cluster.kubectl("delete", "pod", "leaving", "-n", namespace, "--wait=false")
        cluster.wait_for(lambda: leaving(cluster, namespace, "leaving"))
        streamed = reader.is_alive()
        reader.join(60)

    assert streamed
    assert lines[-2].strip() == b"data: [DONE]"
    chunks = [json.loads(line[5:]) for line in lines if line.startswith(b"data: {")]
    text = "".join(one["choices"][0]["text"] for one in chunks if one["choices"])
    assert text == expected_text(PROMPT, 1900)
    cluster.wait_for(lambda: cluster.find("pod", "leaving", "-n", namespace) is None, timeout=30)


def test_a_dead_engine_is_not_ready_and_an_event_says_why(
    cluster: Cluster, namespace: str, images: dict[str, ImageRef]
) -> None:
    url = start(cluster, namespace, replica("dead", images["vllm-neuron-gen1"].reference, 1))

    post(f"{url}/emulator/faults", {"mode": "dead-engine", "on": True}).close()

    cluster.wait_for(lambda: not ready(cluster, namespace, "dead"), "unready", timeout=30)
    events = cluster.get("events", "-n", namespace, "--field-selector", "reason=Unhealthy")
    assert any("empty answer" in event["message"] for event in events["items"])


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("controller", ["python", "-c", "import kopf, kubernetes, neuronfleet.serving.planner"]),
        ("gateway", ["haproxy", "-v"]),
        ("emulator", ["vllm", "serve", "--help"]),
    ],
)
def test_programs_of_the_other_images_run_restricted(
    cluster: Cluster, namespace: str, images: dict[str, ImageRef], name: str, command: list[str]
) -> None:
    cluster.apply(pod(name, images[name].reference, command=command), namespace=namespace)

    def ended() -> bool:
        phase = cluster.get("pod", name, "-n", namespace)["status"]["phase"]
        return phase in ("Succeeded", "Failed")

    cluster.wait_for(ended, f"{name} to end")
    log = cluster.kubectl("logs", name, "-n", namespace)
    assert cluster.get("pod", name, "-n", namespace)["status"]["phase"] == "Succeeded", log
