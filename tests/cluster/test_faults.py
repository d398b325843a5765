import os
from pathlib import Path

import pytest

from tests.cluster import faults, node, processes
from tests.cluster.cluster import Cluster, running
from tests.cluster.errors import ClusterError
from tests.cluster.manifests import pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _local(cluster: Cluster) -> None:
    if why := cluster.lacks("local"):
        pytest.skip(why)


def test_without_its_apiserver_the_cluster_refuses_and_with_it_goes_on(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(pod("stays"), namespace=namespace)
    cluster.wait_for(lambda: _runs(cluster, namespace), "pod stays runs")
    with faults.apiserver_down(cluster.machine), pytest.raises(ClusterError, match="refused"):
        cluster.get("nodes")
    assert _runs(cluster, namespace)


def test_an_apiserver_that_is_paused_answers_nothing(cluster: Cluster) -> None:
    with faults.apiserver_paused(cluster.machine), pytest.raises(ClusterError):
        cluster.kubectl("get", "nodes", "--request-timeout=1s", timeout_s=5)
    assert cluster.get("nodes")["items"]


def test_a_killed_container_is_started_again(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("stays"), namespace=namespace)
    cluster.wait_for(lambda: _runs(cluster, namespace), "pod stays runs")
    pid = faults.kill_container(cluster, namespace, "stays")

    def again() -> bool:
        status = cluster.get("pod", "stays", "-n", namespace)["status"]["containerStatuses"][0]
        return status["restartCount"] == 1 and "running" in status["state"]

    cluster.wait_for(again, "the container is started again")
    assert processes.start_time(pid) is None


def test_a_node_without_kubelet_is_lost_and_comes_back_with_its_devices(cluster: Cluster) -> None:
    faults.stop_kubelet(cluster.machine)
    try:
        cluster.wait_for(lambda: not node.is_ready(cluster.machine), "the node is lost", timeout=60)
    finally:
        faults.start_kubelet(cluster.machine)
    assert node.is_ready(cluster.machine)
    assert node.devices(cluster.machine) == node.DEVICES


def test_another_cluster_is_used_where_the_user_names_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cluster.cluster import FOREIGN, open_cluster

    monkeypatch.setenv(FOREIGN, str(cluster.kubeconfig))
    foreign = open_cluster()
    assert foreign.local is None
    assert foreign.get("nodes")["items"]
    assert foreign.lacks("neuron", "karpenter") is None
    assert "has no local" in (foreign.lacks("local") or "")
    with pytest.raises(ClusterError, match=FOREIGN):
        foreign.import_image(Path(os.devnull))


def _runs(cluster: Cluster, namespace: str) -> bool:
    return running(cluster.get("pods", "-n", namespace)["items"])
