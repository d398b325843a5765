"""A real API server takes every manifest of a fleet, strictly, under PodSecurity `restricted`."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from neuronfleet.serving.controller import workloads
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.serving.controller.workloads.fleets import (
    GPU,
    INF2,
    OWNER,
    SETTINGS,
    TRN2,
    a_fleet,
    deployment,
)

pytestmark = pytest.mark.cluster

SOURCES: dict[str, dict[str, str]] = {
    "hub": {"huggingFace": "org/model", "secret": "hf-token"},
    "s3": {"s3": "s3://bucket/model", "serviceAccount": "reader"},
    "claim": {"pvc": "weights/model"},
    "path": {"path": "/opt/model"},
}
FULL = TRN2 | {
    "name": "full",
    "capacityType": "capacity-block",
    "zones": ["use2-az3"],
    "reservation": {"id": "cr-0123456789abcdef0"},
    "kvCache": {"dtype": "fp8", "blocks": 4096},
    "buckets": {"prefill": [512, 4096], "decode": [1024]},
    "speculation": {"method": "eagle3", "draftModel": "org/draft", "tokens": 3},
    "extraArgs": ["--seed", "1"],
    "env": {"NEURON_RT_EXEC_TIMEOUT": "600", "PRICE": "$(5)"},
    "pins": {"sdk": "2.31", "driver": "2.29", "ami": "v20260714"},
    "podTemplate": {
        "metadata": {"labels": {"team": "x"}},
        "spec": {
            "nodeSelector": {"pool": "x"},
            "tolerations": [{"key": "team", "operator": "Exists"}],
            "containers": [
                {"name": "replica", "resources": {"limits": {"vpc.amazonaws.com/efa": "1"}}},
                {"name": "log", "image": "registry.example/log:1"},
            ],
            "initContainers": [{"name": "wait", "image": "registry.example/wait:1"}],
        },
    },
}


@pytest.fixture
def guarded(cluster: Cluster, namespace: str) -> str:
    """A namespace that enforces PodSecurity restricted, and warns of it for Deployments too."""
    levels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    cluster.kubectl("label", "namespace", namespace, *levels)
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    cluster.wait_for(
        lambda: cluster.find("serviceaccount", "default", "-n", namespace) is not None,
        "the namespace's own service account",
    )
    return namespace


def manifests(namespace: str, source: str, **given: Any) -> list[dict[str, Any]]:
    """Every object of a fleet with all kinds of variants."""
    one = a_fleet(
        INF2,
        TRN2,
        FULL,
        GPU,
        name=f"fleet-{source}",
        model={"name": "m", "source": SOURCES[source]},
    )
    shared: dict[str, Any] = {"namespace": namespace, "owner": OWNER}
    made: list[dict[str, Any]] = []
    for at, variant in enumerate(one.variants):
        made.append(deployment(one, at, namespace=namespace, **given))
        made.append(workloads.service(one, variant, **shared, ceiling=32, settings=SETTINGS))
    made.append(workloads.disruption_budget(one, **shared, serving=2))
    return [*made, *workloads.network_policies(one, **shared, settings=SETTINGS)]


def pods(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods that the Deployments would make."""
    found = []
    for one in made:
        if one["kind"] == "Deployment":
            template = one["spec"]["template"]
            where = {"name": one["metadata"]["name"], "namespace": one["metadata"]["namespace"]}
            metadata = where | template["metadata"]
            found.append(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            )
    return found


def apply(cluster: Cluster, made: list[dict[str, Any]], *options: str) -> str:
    document = {"apiVersion": "v1", "kind": "List", "items": made}
    return cluster.kubectl(
        "apply", "--server-side", "--field-manager=neuronfleet", "--validate=strict",
        *options, "-f", "-", input=json.dumps(document),
    )  # fmt: skip


def stored(cluster: Cluster, namespace: str, kind: str, name: str) -> Mapping[str, Any]:
    return cluster.get(kind, name, "-n", namespace)


@pytest.mark.parametrize("source", SOURCES)
def test_every_object_and_every_pod_is_taken_strictly_and_without_a_warning(
    cluster: Cluster, guarded: str, source: str
) -> None:
    made = manifests(guarded, source)

    said = apply(cluster, [*made, *pods(made)], "--dry-run=server", "--warnings-as-errors")

    assert said.count("serverside-applied") == len(made) + 4


def test_the_namespace_would_refuse_a_pod_that_is_not_restricted(
    cluster: Cluster, guarded: str
) -> None:
    (one, *_) = pods(manifests(guarded, "hub"))
    one["spec"]["hostNetwork"] = True

    with pytest.raises(ClusterError, match="violates PodSecurity"):
        apply(cluster, [one], "--dry-run=server")


def test_a_field_that_does_not_exist_would_be_refused(cluster: Cluster, guarded: str) -> None:
    (one, *_) = manifests(guarded, "hub")
    one["spec"]["template"]["spec"]["noSuchField"] = 1

    with pytest.raises(ClusterError, match="noSuchField"):
        apply(cluster, [one], "--dry-run=server")


def test_applying_again_changes_nothing(cluster: Cluster, namespace: str) -> None:
    # Owned by nothing: the collector deletes at once what belongs to an owner that is not there.
    made = manifests(namespace, "hub", replicas=0)
    for one in made:
        del one["metadata"]["ownerReferences"]
    apply(cluster, made)
    kinds = "deployments,services,poddisruptionbudgets,networkpolicies"

    def generations() -> dict[str, Any]:
        found = cluster.get(kinds, "-n", namespace)["items"]
        return {
            f"{one['kind']}/{one['metadata']['name']}": one["metadata"].get(
                "generation", one["metadata"]["resourceVersion"]
            )
            for one in found
        }

    before = generations()
    apply(cluster, made)

    assert len(before) == len(made)
    assert generations() == before


def test_a_count_that_is_left_out_stays_its_owners(cluster: Cluster, namespace: str) -> None:
    (one, *_) = manifests(namespace, "hub", replicas=None)
    del one["metadata"]["ownerReferences"]
    name = one["metadata"]["name"]
    apply(cluster, [one])
    cluster.kubectl("scale", "deployment", name, "-n", namespace, "--replicas=0")

    apply(cluster, [one])

    assert stored(cluster, namespace, "deployment", name)["spec"]["replicas"] == 0


def test_a_budget_goes_from_one_form_to_the_other(cluster: Cluster, namespace: str) -> None:
    for serving, kept in ((1, "minAvailable"), (2, "maxUnavailable"), (1, "minAvailable")):
        made = workloads.disruption_budget(
            a_fleet(), namespace=namespace, owner=OWNER, serving=serving
        )
        del made["metadata"]["ownerReferences"]
        apply(cluster, [made])

        spec = stored(cluster, namespace, "pdb", "llama-8b")["spec"]
        assert {"minAvailable", "maxUnavailable"} & set(spec) == {kept}


def test_endpoint_slices_carry_the_ceiling_of_their_service(
    cluster: Cluster, namespace: str
) -> None:
    one = a_fleet()
    made = workloads.service(
        one,
        one.variants[0],
        namespace=namespace,
        owner=OWNER,
        ceiling=32,
        settings=SETTINGS,
    )
    del made["metadata"]["ownerReferences"]
    apply(cluster, [made])

    def labelled() -> bool:
        chosen = "neuronfleet.dev/fleet=llama-8b,neuronfleet.dev/ceiling=32"
        return bool(cluster.get("endpointslices", "-n", namespace, "-l", chosen)["items"])

    cluster.wait_for(labelled, "an EndpointSlice with the ceiling")
    assert labelled()
