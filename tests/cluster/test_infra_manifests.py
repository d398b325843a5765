"""What the infrastructure puts into a cluster: the real CRDs take it, and its pods run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from neuronfleet.infra.addons.manifests import fleets, karpenter, neuron_monitor, prometheus
from neuronfleet.infra.charts import karpenter as karpenter_chart
from neuronfleet.infra.settings.model import Owner, Pool, Serving
from neuronfleet.infra.settings.offers import find, neuron_types
from neuronfleet.serving.api.variant import CapacityType
from tests.cluster import binaries, karpenter_aws
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.images import PROBE

pytestmark = pytest.mark.cluster

Manifest = dict[str, Any]

PLACE = karpenter.Place(
    instance_profile="fleet-nodes",
    subnets={"use2-az1": "subnet-0123456789abcdef0", "use2-az3": "subnet-0123456789abcdef1"},
    security_groups=("sg-0123456789abcdef0",),
    efa_security_group="sg-0123456789abcdef1",
    tags={"team": "serving", "Name": "fleet-pool"},
)
RULES = Path(__file__).parents[2] / "monitoring/rules/fleet.yml"


def a_pool(instance_type: str, **given: Any) -> Pool:
    """A pool of Karpenter's, of this type."""
    usual: dict[str, Any] = {
        "name": f"pool-{instance_type.replace('.', '-')}",
        "owner": Owner.KARPENTER,
        "capacity": CapacityType.ON_DEMAND,
        "zones": ("use2-az1", "use2-az3"),
        "most": 4,
        "sdk": "2.28",
        "ami_release": "v20260403",
    }
    return Pool(instance_type=instance_type, **usual | given)


def pools() -> list[Pool]:
    """Every Neuron type as it comes, and everything that can be asked of one."""
    found = [a_pool(name) for name in neuron_types()]
    found.append(a_pool("inf2.xlarge", name="spot", capacity=CapacityType.SPOT))
    found.append(a_pool("trn2.48xlarge", name="lnc", logical_core_size=1, zones=("use2-az3",)))
    with_efa = [name for name in neuron_types() if (offer := find(name)) and offer.efa_interfaces]
    return found + [a_pool(name, name=f"efa-{at}", efa=True) for at, name in enumerate(with_efa)]


def apply(cluster: Cluster, made: Sequence[Mapping[str, Any]], *options: str) -> str:
    document = {"apiVersion": "v1", "kind": "List", "items": list(made)}
    return cluster.kubectl(
        "apply", "--server-side", "--field-manager=infra", "--force-conflicts",
        "--validate=strict", *options, "-f", "-", input=json.dumps(document),
    )  # fmt: skip


@pytest.fixture
def provider(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the CRDs of the AWS provider; afterwards with those of its own Karpenter."""
    ours = ("apply", "--server-side", "--force-conflicts")
    cluster.kubectl(*ours, "-f", str(karpenter_aws.crds()))
    wait = ("wait", "--for=condition=Established", "--timeout=30s")
    cluster.kubectl(*wait, "-f", str(karpenter_aws.crds()))
    yield cluster
    cluster.kubectl("delete", "crd", "ec2nodeclasses.karpenter.k8s.aws", "--timeout=60s")
    cluster.kubectl(*ours, "-f", str(binaries.ensure("karpenter") / "share"))


@pytest.fixture
def monitored(cluster: Cluster) -> Iterator[list[Manifest]]:
    """neuron-monitor in the cluster, as a stand-in that answers on its port."""
    made = neuron_monitor.manifests(
        "10.0.0.0/8", image=PROBE, command=("/probe", "serve", str(neuron_monitor.PORT))
    )
    apply(cluster, made)
    yield made
    cluster.kubectl("delete", "namespace", neuron_monitor.NAMESPACE, "--timeout=90s")


def test_chart_crds_and_the_clusters_own_karpenter_are_of_one_version() -> None:
    core = (binaries.BUILD / "karpenter/go.mod").read_text()

    assert karpenter_aws.version() == f"v{karpenter_chart.VERSION}"
    assert f"sigs.k8s.io/karpenter v{karpenter_chart.VERSION} " in core


def test_every_kind_of_pool_passes_the_real_schemas_and_their_rules(provider: Cluster) -> None:
    made = [karpenter.node_class(pool, PLACE) for pool in pools()]
    made += [karpenter.node_pool(pool) for pool in pools()]

    said = apply(provider, made, "--dry-run=server", "--warnings-as-errors")

    assert said.count("serverside-applied") == len(made)


def test_the_rules_would_refuse_a_node_class_without_its_primary_interface(
    provider: Cluster,
) -> None:
    made = karpenter.node_class(a_pool("trn1.32xlarge", efa=True), PLACE)
    del made["spec"]["networkInterfaces"][0]

    with pytest.raises(ClusterError, match="must include a primary interface"):
        apply(provider, [made], "--dry-run=server")


def test_the_rules_would_refuse_a_label_of_karpenters_own(provider: Cluster) -> None:
    made = karpenter.node_pool(a_pool("inf2.xlarge"))
    made["spec"]["template"]["metadata"]["labels"]["karpenter.sh/pool"] = "x"

    with pytest.raises(ClusterError, match=r"karpenter\.sh"):
        apply(provider, [made], "--dry-run=server")


def test_what_is_stored_of_a_node_class_is_what_was_meant(provider: Cluster) -> None:
    made = karpenter.node_class(a_pool("trn1.32xlarge", efa=True), PLACE)

    apply(provider, [made])

    kept = provider.get("ec2nodeclass", made["metadata"]["name"])["spec"]
    assert kept == made["spec"]


def test_the_chart_of_that_version_renders_with_the_values_that_are_set(
    provider: Cluster, tmp_path: Path
) -> None:
    install = karpenter_chart.Install(
        cluster_name="fleet", cluster_endpoint="https://x.example", interruption_queue="fleet-q",
    )  # fmt: skip
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(karpenter_chart.values(install)))

    text = provider.helm(
        "template", "karpenter", str(karpenter_aws.chart()), "-n", karpenter_chart.NAMESPACE,
        "-f", str(values), "--api-versions", "policy/v1", "--kube-version", binaries.KUBERNETES,
    )  # fmt: skip

    made = [one for one in yaml.safe_load_all(text) if one]
    apply(provider, made, "--dry-run=server", "-n", karpenter_chart.NAMESPACE)
    (deployment,) = (one for one in made if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    told = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert pod["serviceAccountName"] == karpenter_chart.SERVICE_ACCOUNT
    assert told["CLUSTER_NAME"] == "fleet"
    assert told["INTERRUPTION_QUEUE"] == "fleet-q"
    assert "ReservedCapacity=false" in str(told["FEATURE_GATES"])


def test_neuron_monitor_runs_on_the_node_and_answers_on_its_port(
    cluster: Cluster, monitored: list[Manifest]
) -> None:
    where = ("-n", neuron_monitor.NAMESPACE)

    def ready() -> bool:
        status = cluster.get("daemonset", neuron_monitor.NAME, *where)["status"]
        return bool(status.get("numberReady", 0) >= 1)

    cluster.wait_for(ready, "a ready pod of neuron-monitor", timeout=90.0)
    (pod, *_) = cluster.get("pods", *where)["items"]
    assert pod["spec"]["containers"][0]["args"][:2] == ["--port", str(neuron_monitor.PORT)]
    assert "hostNetwork" not in pod["spec"]


def test_prometheus_and_the_namespaces_of_fleets_are_taken_strictly(cluster: Cluster) -> None:
    made = prometheus.manifests(
        rules=RULES.read_text(), remote_write="https://x.example/", region="us-east-2",
        cluster="fleet",
    )  # fmt: skip
    made += fleets.manifests(Serving(fleet_namespaces=("models",), service_account="replica"))
    names = [one["metadata"]["name"] for one in made if one["kind"] == "Namespace"]
    apply(cluster, [one for one in made if one["kind"] == "Namespace"])
    try:
        said = apply(cluster, made, "--dry-run=server", "--warnings-as-errors")
    finally:
        cluster.kubectl("delete", "namespace", *names, "--wait=false")

    assert said.count("serverside-applied") == len(made)


def test_a_restricted_namespace_takes_the_pod_of_prometheus(
    cluster: Cluster, namespace: str
) -> None:
    cluster.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    made = prometheus.manifests(rules="", remote_write="", region="us-east-2", cluster="fleet")
    (deployment,) = (one for one in made if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    template["spec"] |= {"serviceAccountName": "default"}
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {**template["metadata"], "name": "prometheus", "namespace": namespace},
        "spec": template["spec"],
    }  # fmt: skip
    cluster.wait_for(
        lambda: cluster.find("serviceaccount", "default", "-n", namespace) is not None,
        "the namespace's own service account",
    )

    assert "serverside-applied" in apply(cluster, [pod], "--dry-run=server", "--warnings-as-errors")
