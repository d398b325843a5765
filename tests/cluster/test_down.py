import os
import signal
from collections.abc import Iterator

import pytest

from tests.cluster import baseline, cgroups, images, lifecycle
from tests.cluster.cluster import FOREIGN, of_machine, running
from tests.cluster.layout import default
from tests.cluster.machine import Machine
from tests.cluster.manifests import pod

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(os.environ.get(FOREIGN)), reason="no cluster of this machine"),
]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    stood = lifecycle.stands() is not None
    yield
    if stood:
        lifecycle.up()


def _with_a_pod() -> Machine:
    machine = lifecycle.up()
    cluster = of_machine(machine)
    # A host port makes chains of their own.
    cluster.apply(pod("web", arguments=["serve", "8080"], host_port=18080))
    cluster.wait_for(lambda: running([cluster.get("pod", "web")]), "pod web runs")
    return machine


def test_down_leaves_nothing_and_may_be_repeated() -> None:
    machine = _with_a_pod()
    before = baseline.load(machine.layout)
    assert before is not None
    while_up = "\n".join(baseline.leftovers(machine.layout, before))
    for kind in ("process ", "control group ", "links: nfbr0", "mounts: ", "rules: ", "state "):
        assert kind in while_up
    assert lifecycle.down() == []
    assert baseline.leftovers(machine.layout, before) == []
    assert lifecycle.down() == []


def test_down_leaves_nothing_of_a_cluster_that_crashed() -> None:
    machine = _with_a_pod()
    before = baseline.load(machine.layout)
    assert before is not None
    for name in ("containerd", "kubelet", "kube-apiserver", "etcd"):
        os.kill(machine.daemons[name].pid, signal.SIGKILL)
    # The shims and the pods go on without their containerd.
    assert cgroups.members("kubepods")
    machine.layout.record.write_text('{"lock": "')
    assert lifecycle.down() == []
    assert baseline.leftovers(machine.layout, before) == []


def test_up_starts_anew_what_is_broken_and_keeps_what_is_whole() -> None:
    machine = lifecycle.up()
    assert lifecycle.up().daemons == machine.daemons
    machine.stop("kube-scheduler")
    assert lifecycle.stands() is None
    anew = lifecycle.up()
    assert anew.daemons["etcd"].pid != machine.daemons["etcd"].pid
    assert images.PROBE in images.names(default())
