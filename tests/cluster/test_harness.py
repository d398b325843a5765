import urllib.request
from collections.abc import Iterator

import pytest

from tests.cluster import karpenter, kwok, node, offers
from tests.cluster.cluster import Cluster, running
from tests.cluster.manifests import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NEURON,
    ON_REAL,
    ZONE,
    pod,
    service,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _local(cluster: Cluster) -> None:
    if why := cluster.lacks("local"):
        pytest.skip(why)


@pytest.fixture(scope="module", autouse=True)
def _without_nodes_of_before(cluster: Cluster) -> Iterator[None]:
    """A node that another test left would take the pod that is to bring a new one."""
    if cluster.local is None:
        yield
        return
    karpenter.clear(cluster.machine)
    yield
    karpenter.clear(cluster.machine)


def _running(cluster: Cluster, namespace: str, name: str) -> bool:
    return running([cluster.get("pod", name, "-n", namespace)])


def _node_of(cluster: Cluster, namespace: str, name: str) -> dict[str, str]:
    """Labels of the node on which a pod runs."""
    cluster.wait_for(lambda: _running(cluster, namespace, name), f"pod {name} runs")
    where = cluster.get("pod", name, "-n", namespace)["spec"]["nodeName"]
    labels: dict[str, str] = cluster.get("node", where)["metadata"]["labels"]
    return labels


def _ended(cluster: Cluster, namespace: str, name: str) -> bool:
    phase = cluster.get("pod", name, "-n", namespace)["status"]["phase"]
    return phase in ("Succeeded", "Failed")


def test_the_real_node_is_ready_with_its_labels_and_devices(cluster: Cluster) -> None:
    assert node.is_ready(cluster.machine)
    real = cluster.get("node", "real-0")
    assert node.LABELS.items() <= real["metadata"]["labels"].items()
    for kind in ("capacity", "allocatable"):
        assert real["status"][kind][NEURON] == "8"


def test_a_restricted_pod_runs_where_the_standard_is_enforced(
    cluster: Cluster, namespace: str
) -> None:
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", namespace, enforce)
    cluster.apply(pod("quiet"), namespace=namespace)
    assert _node_of(cluster, namespace, "quiet")["neuronfleet.dev/real"] == "true"


def test_a_service_answers_the_machine_and_its_pods(cluster: Cluster, namespace: str) -> None:
    cluster.apply(
        pod("web", arguments=["serve", "8080"]), service("web", 8080), namespace=namespace
    )
    cluster.wait_for(lambda: _running(cluster, namespace, "web"), "pod web runs")
    address = cluster.get("service", "web", "-n", namespace)["spec"]["clusterIP"]

    def answered() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=2) as answer:
                return bool(answer.read() == b"web\n")
        except OSError:
            return False

    cluster.wait_for(answered, "the Service answers", timeout=20)
    inside = cluster.kubectl(
        "exec", "web", "-n", namespace, "--", "/probe", "fetch", f"http://{address}/"
    )
    assert inside == "status 200\nweb\n"


def test_a_service_answers_to_its_name(cluster: Cluster, namespace: str) -> None:
    web = pod("web", arguments=["serve", "8080"])
    # Asked from another pod, since a pod takes its own name from its hosts file.
    cluster.apply(web, service("web", 8080), pod("asks"), namespace=namespace)
    pods = ("pods", "-n", namespace)
    cluster.wait_for(lambda: running(cluster.get(*pods)["items"]), "both pods run")

    def answers(name: str) -> bool:
        fetch = ("exec", "asks", "-n", namespace, "--", "/probe", "fetch", f"http://{name}/")
        return cluster.kubectl(*fetch) == "status 200\nweb\n"

    names = ("web", f"web.{namespace}.svc.cluster.local")
    # kube-proxy writes the rules of a new endpoint within a second of its being ready.
    cluster.wait_for(lambda: all(answers(name) for name in names), "both names answer")


@pytest.mark.parametrize("address", ["10.96.0.1:443", "10.244.0.1"])
def test_pods_reach_the_api(cluster: Cluster, namespace: str, address: str) -> None:
    port = "" if ":" in address else f":{cluster.machine.ports['apiserver']}"
    url = f"https://{address}{port}/version"
    cluster.apply(pod("ask", arguments=["fetch", url], restart="Never"), namespace=namespace)
    cluster.wait_for(lambda: _ended(cluster, namespace, "ask"), "pod ask ends")
    assert cluster.kubectl("logs", "ask", "-n", namespace).startswith("status 200\n")


def test_a_ninth_device_is_not_found_on_a_node_of_eight(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("eight", devices=8), pod("ninth", devices=1), namespace=namespace)
    pods = ("pods", "-n", namespace)
    cluster.wait_for(lambda: len(_placed(cluster, *pods)) == 1, "one of the two is placed")

    def refused() -> bool:
        said = [
            condition.get("message", "")
            for one in cluster.get(*pods)["items"]
            for condition in one["status"]["conditions"]
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        return any(f"Insufficient {NEURON}" in message for message in said)

    cluster.wait_for(refused, "the other is refused for its devices")


def _placed(cluster: Cluster, *arguments: str) -> list[str]:
    return [
        one["metadata"]["name"]
        for one in cluster.get(*arguments)["items"]
        if "nodeName" in one["spec"]
    ]


def test_pods_run_on_fake_nodes_only_where_they_tolerate_them(
    cluster: Cluster, namespace: str
) -> None:
    own = {"neuronfleet.dev/fake": namespace}
    names = kwok.add_nodes(cluster.machine, 3, namespace, labels=own)
    try:
        there = pod("there", selector=own, tolerations=[kwok.TOLERATION])
        cluster.apply(there, pod("not-there", selector=own), namespace=namespace)
        assert _node_of(cluster, namespace, "there")["neuronfleet.dev/fake"] == namespace
        assert _placed(cluster, "pods", "-n", namespace) == ["there"]
        # Without an address it would be no endpoint of a Service.
        assert cluster.get("pod", "there", "-n", namespace)["status"]["podIP"]
    finally:
        kwok.remove_nodes(cluster.machine, names)


@pytest.mark.parametrize(
    ("name", "zone", "capacity_type", "devices"),
    [
        ("inf2.xlarge", "us-east-2b", "on-demand", 1),
        ("trn2.48xlarge", "us-east-2c", "spot", 16),
        ("trn2.3xlarge", "us-east-2a", "reserved", 1),
    ],
)
def test_karpenter_brings_the_node_that_a_pod_asks_for(
    cluster: Cluster, namespace: str, name: str, zone: str, capacity_type: str, devices: int
) -> None:
    wanted = {INSTANCE_TYPE: name, ZONE: zone, CAPACITY_TYPE: capacity_type}
    cluster.apply(pod("asks", devices=devices, selector=wanted), namespace=namespace)
    assert wanted.items() <= _node_of(cluster, namespace, "asks").items()


def test_karpenter_takes_the_cheapest_that_holds_the_devices(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(pod("six", devices=6, selector={ZONE: "us-east-2b"}), namespace=namespace)
    labels = _node_of(cluster, namespace, "six")
    assert (labels[INSTANCE_TYPE], labels[CAPACITY_TYPE]) == ("inf2.24xlarge", "spot")


def test_an_offer_that_was_withdrawn_brings_no_node(cluster: Cluster, namespace: str) -> None:
    spot = offers.Offer(instance_type="inf2.8xlarge", capacity_type="spot")
    karpenter.withdraw(cluster.machine, spot)
    try:
        cluster.apply(
            pod("one", devices=1, selector={INSTANCE_TYPE: "inf2.8xlarge", ZONE: "us-east-2c"}),
            namespace=namespace,
        )
        assert _node_of(cluster, namespace, "one")[CAPACITY_TYPE] == "reserved"
    finally:
        karpenter.withdraw(cluster.machine)


def test_an_interrupted_node_is_replaced(cluster: Cluster, namespace: str) -> None:
    wanted = {INSTANCE_TYPE: "trn1.2xlarge", CAPACITY_TYPE: "spot"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "stays"},
        "spec": {
            "selector": {"matchLabels": {"app": "stays"}},
            "template": {
                "metadata": {"labels": {"app": "stays"}},
                "spec": pod("stays", devices=1, selector=wanted)["spec"],
            },
        },
    }
    cluster.apply(deployment, namespace=namespace)
    pods = ("pods", "-n", namespace)
    cluster.wait_for(lambda: running(cluster.get(*pods)["items"]), "the replica runs")
    first = cluster.get(*pods)["items"][0]["spec"]["nodeName"]
    karpenter.interrupt(cluster.machine, first)

    def replaced() -> bool:
        now = cluster.get(*pods)["items"]
        return running(now) and now[0]["spec"]["nodeName"] != first

    cluster.wait_for(replaced, "another node runs the replica")
    cluster.wait_for(lambda: cluster.find("node", first) is None, "the node goes")


def test_what_the_limit_of_the_pool_forbids_stays_pending(cluster: Cluster, namespace: str) -> None:
    karpenter.apply_pool(cluster.machine, karpenter.pool(limits={NEURON: "0"}))
    try:
        waits = pod("waits", devices=16, selector={INSTANCE_TYPE: "trn1.32xlarge"})
        cluster.apply(waits, namespace=namespace)

        def refused() -> bool:
            events = cluster.get("events", "-n", namespace)["items"]
            return any("limit" in one["message"].lower() for one in events)

        cluster.wait_for(refused, "Karpenter says that the limit is reached", timeout=30)
        assert _placed(cluster, "pods", "-n", namespace) == []
    finally:
        karpenter.apply_pool(cluster.machine)


def test_an_empty_node_is_given_up_where_the_pool_says_so(cluster: Cluster, namespace: str) -> None:
    karpenter.apply_pool(cluster.machine, karpenter.pool(consolidate_after="1s"))
    try:
        asks = pod("short", devices=1, selector={INSTANCE_TYPE: "trn1.2xlarge"})
        cluster.apply(asks, namespace=namespace)
        cluster.wait_for(lambda: _running(cluster, namespace, "short"), "pod short runs")
        where = cluster.get("pod", "short", "-n", namespace)["spec"]["nodeName"]
        cluster.kubectl("delete", "pod", "short", "-n", namespace, "--now")
        cluster.wait_for(lambda: cluster.find("node", where) is None, "the node goes", timeout=90)
    finally:
        karpenter.apply_pool(cluster.machine)


def test_the_real_node_is_selected_by_its_label(cluster: Cluster) -> None:
    ((key, value),) = ON_REAL.items()
    nodes = cluster.get("nodes", "-l", f"{key}={value}")["items"]
    assert [one["metadata"]["name"] for one in nodes] == ["real-0"]
