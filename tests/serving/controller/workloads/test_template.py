"""A podTemplate adds to the controller's pods, and never takes away what safety needs."""

from typing import Any

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.workloads.merge import merged
from tests.serving.controller.workloads.fleets import INF2, a_fleet, environment, pod, replica


def with_template(**template: Any) -> Any:
    return a_fleet(INF2 | {"podTemplate": template})


def with_replica(**fields: Any) -> Any:
    return with_template(spec={"containers": [{"name": "replica"} | fields]})


def refused(one: Any) -> list[str]:
    with pytest.raises(SpecError) as raised:
        pod(one)
    return [problem.path for problem in raised.value.problems]


def test_labels_annotations_tolerations_and_node_selectors_are_added() -> None:
    taint = {"key": "team", "operator": "Exists"}

    made = pod(
        with_template(
            metadata={"labels": {"team": "x"}, "annotations": {"note": "y"}},
            spec={"tolerations": [taint], "nodeSelector": {"pool": "z"}, "priorityClassName": "p"},
        )
    )

    assert made["metadata"]["labels"]["team"] == "x"
    assert made["metadata"]["labels"]["neuronfleet.dev/fleet"] == "llama-8b"
    assert made["metadata"]["annotations"]["note"] == "y"
    assert [one["key"] for one in made["spec"]["tolerations"]] == ["aws.amazon.com/neuron", "team"]
    assert made["spec"]["nodeSelector"] == {"pool": "z"}
    assert made["spec"]["priorityClassName"] == "p"


def test_requests_environment_and_mounts_of_the_replica_are_merged_by_name() -> None:
    container = replica(
        with_replica(
            resources={"requests": {"cpu": "50m"}, "limits": {"vpc.amazonaws.com/efa": "1"}},
            env=[{"name": "HF_HOME", "value": "/cache"}, {"name": "X", "value": "1"}],
            volumeMounts=[{"name": "graphs", "mountPath": "/graphs"}],
        )
    )

    assert container["resources"]["requests"] == {
        "cpu": "50m",
        "memory": "12Gi",
        "aws.amazon.com/neuron": "1",
    }
    assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == "1"
    assert environment(container)["HF_HOME"] == "/cache"
    assert environment(container)["X"] == "1"
    assert [m["mountPath"] for m in container["volumeMounts"]] == [
        "/dev/shm",
        "/tmp",
        "/models",
        "/graphs",
    ]


def test_containers_beside_the_replica_are_hardened_as_it_is() -> None:
    made = pod(
        with_template(
            spec={
                "initContainers": [{"name": "fetch", "image": "fetch:1"}],
                "containers": [
                    {"name": "log", "image": "log:1", "securityContext": {"runAsUser": 1000}}
                ],
            }
        )
    )["spec"]

    ours = made["containers"][0]["securityContext"]
    assert made["initContainers"][0]["securityContext"] == ours
    assert made["containers"][1]["securityContext"] == ours | {"runAsUser": 1000}
    assert made["containers"][0]["name"] == "replica"


def test_a_path_source_may_have_its_own_volume_at_models() -> None:
    mount = {"name": "bucket", "mountPath": "/models"}
    volume = {"name": "bucket", "csi": {"driver": "s3.csi.aws.com"}}
    template = {
        "spec": {
            "containers": [{"name": "replica", "volumeMounts": [mount]}],
            "volumes": [volume],
        }
    }

    one = a_fleet(
        INF2 | {"podTemplate": template}, model={"name": "m", "source": {"path": "/models"}}
    )

    assert mount in replica(one)["volumeMounts"]
    hub = a_fleet(INF2 | {"podTemplate": template})
    assert refused(hub) == [
        "spec.variants[0].podTemplate.spec.containers[replica].volumeMounts[bucket]"
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"image": "x"}, "image"),
        ({"command": ["x"]}, "command"),
        ({"args": ["x"]}, "args"),
        ({"ports": [{"containerPort": 9}]}, "ports"),
        ({"startupProbe": {}}, "startupProbe"),
        ({"readinessProbe": {}}, "readinessProbe"),
        ({"livenessProbe": {}}, "livenessProbe"),
        ({"lifecycle": {}}, "lifecycle"),
        ({"securityContext": {"privileged": True}}, "securityContext"),
        ({"env": [{"name": "NEURONFLEET_REPLICA", "value": "{}"}]}, "env[NEURONFLEET_REPLICA]"),
        ({"volumeMounts": [{"name": "own", "mountPath": "/tmp"}]}, "volumeMounts[own]"),
        (
            {"resources": {"limits": {"aws.amazon.com/neuron": "2"}}},
            "resources.limits[aws.amazon.com/neuron]",
        ),
        (
            {"resources": {"requests": {"aws.amazon.com/neuroncore": "2"}}},
            "resources.requests[aws.amazon.com/neuroncore]",
        ),
        ({"resources": {"claims": []}}, "resources.claims"),
        ({"env": None}, "env"),
        ({"resources": "2"}, "resources"),
        ({"env": ["X"]}, "env[0]"),
    ],
    ids=str,
)
def test_what_the_replica_needs_is_refused_by_its_path(fields: dict[str, Any], path: str) -> None:
    paths = refused(with_replica(**fields))

    # A null is named by its index, as no merge has been made of it.
    start = r"spec.variants[0].podTemplate.spec.containers["
    assert any(one in (f"{start}replica].{path}", f"{start}0].{path}") for one in paths)


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"spec": {"restartPolicy": "Never"}}, "spec.restartPolicy"),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, "spec.terminationGracePeriodSeconds"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "spec.activeDeadlineSeconds"),
        ({"spec": {"serviceAccountName": "admin"}}, "spec.serviceAccountName"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
        ({"spec": {"hostPID": True}}, "spec.hostPID"),
        ({"spec": {"nodeName": "n"}}, "spec.nodeName"),
        ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext.runAsUser"),
        ({"spec": {"securityContext": {"sysctls": []}}}, "spec.securityContext.sysctls"),
        (
            {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
            "spec.volumes[root].hostPath",
        ),
        ({"spec": {"volumes": [{"name": "shm", "emptyDir": {}}]}}, "spec.volumes[shm]"),
        (
            {
                "spec": {
                    "affinity": {
                        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}
                    }
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0].name"),
        (
            {"spec": {"containers": [{"name": "x", "ports": [{"hostPort": 1}]}]}},
            "spec.containers[x].ports[0].hostPort",
        ),
        (
            {"spec": {"containers": [{"name": "x", "livenessProbe": {"httpGet": {"host": "h"}}}]}},
            "spec.containers[x].livenessProbe.httpGet.host",
        ),
        (
            {
                "spec": {
                    "containers": [
                        {"name": "x", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}
                    ]
                }
            },
            "spec.containers[x].resources.limits[aws.amazon.com/neuron]",
        ),
        ({"spec": {"initContainers": [{"name": "replica"}]}}, "spec.initContainers[replica].name"),
        ({"spec": {"$patch": "replace"}}, "spec.$patch"),
        ({"spec": {"tolerations": "all"}}, "spec.tolerations"),
        ({"spec": {"tolerations": None}}, "spec.tolerations"),
        ({"spec": []}, "spec"),
        (
            {"metadata": {"labels": {"neuronfleet.dev/fleet": "other"}}},
            "metadata.labels[neuronfleet.dev/fleet]",
        ),
        (
            {"metadata": {"labels": {"app.kubernetes.io/component": "x"}}},
            "metadata.labels[app.kubernetes.io/component]",
        ),
        (
            {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}},
            "metadata.annotations[karpenter.sh/do-not-disrupt]",
        ),
        ({"metadata": {"name": "x"}}, "metadata.name"),
        ({"status": {}}, "status"),
    ],
    ids=str,
)
def test_what_the_pod_needs_is_refused_by_its_path(template: dict[str, Any], path: str) -> None:
    assert f"spec.variants[0].podTemplate.{path}" in refused(with_template(**template))


def test_every_problem_of_a_template_is_told_at_once() -> None:
    assert len(refused(with_template(spec={"hostPID": True, "nodeName": "n"}))) == 2


def test_lists_without_names_are_replaced_and_named_ones_keep_their_order() -> None:
    base = {"args": ["a"], "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "1"}]}
    patch = {"args": ["b"], "env": [{"name": "A", "value": "2"}, {"name": "C", "value": "3"}]}

    assert merged(base, patch) == {
        "args": ["b"],
        "env": [
            {"name": "B", "value": "1"},
            {"name": "A", "value": "2"},
            {"name": "C", "value": "3"},
        ],
    }


def test_a_name_given_twice_in_a_new_list_stands_once() -> None:
    patch = {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}

    assert merged({}, patch) == {"volumes": [{"name": "a", "emptyDir": {}}]}


def test_merging_leaves_its_inputs_as_they_were() -> None:
    base = {"env": [{"name": "A", "value": "1"}]}

    merged(base, {"env": [{"name": "A", "value": "2"}]})

    assert base == {"env": [{"name": "A", "value": "1"}]}
