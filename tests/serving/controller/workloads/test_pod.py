"""What a replica's pod asks for, where it goes, and what it is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.serving.api.hardware import catalog
from neuronfleet.serving.api.problems import SpecError
from tests.serving.controller.workloads.fleets import (
    GPU,
    INF2,
    SETTINGS,
    TRN2,
    a_fleet,
    environment,
    pod,
    replica,
)


def told(one: Any) -> dict[str, Any]:
    """NEURONFLEET_REPLICA as the process reads it, after Kubernetes has expanded `$$`."""
    text = environment(replica(one))["NEURONFLEET_REPLICA"]
    document: dict[str, Any] = json.loads(text.replace("$$", "$"))
    return document


def node_terms(one: Any) -> dict[str, list[str]]:
    affinity = pod(one)["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {one["operator"] for one in term["matchExpressions"]} == {"In"}
    return {one["key"]: one["values"] for one in term["matchExpressions"]}


@pytest.mark.parametrize(
    ("change", "count", "per_node"),
    [
        ({"instanceType": "inf2.xlarge", "tensorParallelDegree": 2}, 1, 1),
        ({"instanceType": "inf2.24xlarge", "tensorParallelDegree": 2}, 1, 6),
        ({"instanceType": "inf2.48xlarge", "tensorParallelDegree": 24}, 12, 1),
        ({"instanceType": "trn1.32xlarge", "tensorParallelDegree": 8}, 4, 4),
        ({"instanceType": "trn2.48xlarge", "tensorParallelDegree": 4}, 1, 16),
        ({"instanceType": "trn2.48xlarge", "tensorParallelDegree": 16}, 4, 4),
        ({"instanceType": "trn2.48xlarge", "tensorParallelDegree": 8, "logicalCoreSize": 1}, 1, 16),
        ({"instanceType": "trn2.3xlarge", "tensorParallelDegree": 4}, 1, 1),
    ],
    ids=str,
)
def test_a_replica_takes_the_devices_that_its_cores_are_on(
    change: dict[str, Any], count: int, per_node: int
) -> None:
    one = a_fleet(INF2 | change)

    resources = replica(one)["resources"]

    assert resources["requests"]["aws.amazon.com/neuron"] == str(count)
    assert resources["limits"] == {"aws.amazon.com/neuron": str(count)}
    assert one.variants[0].replicas_per_node == per_node


@pytest.mark.parametrize(
    ("instance", "degree", "count", "per_node"),
    [("trn2.48xlarge", 2, 1, 16), ("inf2.xlarge", 1, 1, 1), ("inf2.24xlarge", 3, 2, 3)],
)
def test_a_part_of_a_device_takes_all_of_it_so_that_fewer_replicas_fit(
    instance: str, degree: int, count: int, per_node: int
) -> None:
    one = a_fleet(INF2 | {"instanceType": instance, "tensorParallelDegree": degree}).variants[0]

    assert one.devices == count
    assert one.replicas_per_node == per_node


@pytest.mark.parametrize("instance", [name for name, one in catalog().items() if one.is_neuron])
def test_devices_of_all_replicas_of_a_node_are_never_more_than_it_has(instance: str) -> None:
    hardware = catalog()[instance]

    for degree in range(1, hardware.logical_cores(hardware.logical_core_size or 1) + 1):
        one = a_fleet(INF2 | {"instanceType": instance, "tensorParallelDegree": degree})
        used = one.variants[0].devices * one.variants[0].replicas_per_node
        assert 1 <= used <= hardware.accelerators


def test_a_gpu_replica_asks_for_gpus_and_tolerates_their_taint() -> None:
    one = a_fleet(GPU)

    assert replica(one)["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert pod(one)["spec"]["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert "generation" not in told(one)["variant"]


def test_cpu_and_memory_are_three_quarters_of_the_replicas_share() -> None:
    assert replica(a_fleet())["resources"]["requests"] | {"aws.amazon.com/neuron": "1"} == {
        "cpu": "3",
        "memory": "12Gi",
        "aws.amazon.com/neuron": "1",
    }
    requests = replica(a_fleet(TRN2))["resources"]["requests"]
    assert (requests["cpu"], requests["memory"]) == ("9", "96Gi")


def test_what_the_catalog_does_not_know_is_not_requested() -> None:
    one = a_fleet(TRN2 | {"instanceType": "trn2.3xlarge"})

    assert set(replica(one)["resources"]["requests"]) == {"aws.amazon.com/neuron"}


def test_nodes_are_chosen_by_instance_capacity_zone_and_reservation() -> None:
    assert node_terms(a_fleet()) == {
        "node.kubernetes.io/instance-type": ["inf2.xlarge"],
        "karpenter.sh/capacity-type": ["on-demand"],
    }
    block = {
        "capacityType": "capacity-block",
        "zones": ["us-east-2a"],
        "reservation": {"id": "cr-1"},
    }
    assert node_terms(a_fleet(TRN2 | block)) == {
        "node.kubernetes.io/instance-type": ["trn2.48xlarge"],
        "karpenter.sh/capacity-type": ["reserved"],
        "topology.kubernetes.io/zone": ["us-east-2a"],
        "karpenter.k8s.aws/capacity-reservation-id": ["cr-1"],
    }


@pytest.mark.parametrize("zone", ["use2-az3", "usgw1-az1", "use1-bos1-az1"])
def test_zone_ids_are_matched_by_their_own_label(zone: str) -> None:
    assert node_terms(a_fleet(INF2 | {"zones": [zone]}))["topology.k8s.aws/zone-id"] == [zone]


def test_zone_names_and_ids_together_are_refused_since_no_node_would_match() -> None:
    with pytest.raises(SpecError, match=r"spec.variants\[0\].zones = us-east-2a, use2-az3, must"):
        pod(a_fleet(INF2 | {"zones": ["us-east-2a", "use2-az3"]}))


def test_karpenters_disruption_taint_is_not_tolerated_since_it_would_not_drain_the_pod() -> None:
    keys = {one["key"] for one in pod(a_fleet())["spec"]["tolerations"]}

    assert keys == {"aws.amazon.com/neuron"}


def test_zones_are_spread_over_but_never_at_the_price_of_a_replica() -> None:
    (one,) = pod(a_fleet())["spec"]["topologySpreadConstraints"]

    assert one["topologyKey"] == "topology.kubernetes.io/zone"
    assert one["whenUnsatisfiable"] == "ScheduleAnyway"
    assert one["labelSelector"]["matchLabels"]["neuronfleet.dev/fleet"] == "llama-8b"


@pytest.mark.parametrize(("degree", "expected"), [(4, None), (16, "neuron"), (64, None)])
def test_the_neuron_scheduler_places_replicas_of_several_but_not_all_devices(
    degree: int, expected: str | None
) -> None:
    settings = replace(SETTINGS, scheduler_name="neuron")

    made = pod(a_fleet(TRN2 | {"tensorParallelDegree": degree}), settings=settings)

    assert made["spec"].get("schedulerName") == expected


@pytest.mark.parametrize(
    ("boot", "seconds"), [(60.0, 1800), (548.0, 1800), (2840.0, 5680), (2840.2, 5682)]
)
def test_a_boot_may_take_twice_its_p99_and_never_less_than_half_an_hour(
    boot: float, seconds: int
) -> None:
    probe = replica(a_fleet(), boot_p99_s=boot)["startupProbe"]

    allowed = probe["failureThreshold"] * probe["periodSeconds"]
    assert seconds <= allowed < seconds + probe["periodSeconds"]


def test_startup_and_readiness_are_the_canary_and_nothing_kills_a_full_replica() -> None:
    container = replica(a_fleet())

    for name in ("startupProbe", "readinessProbe"):
        assert container[name]["exec"]["command"] == ["neuronfleet-replica", "canary"]
    assert "livenessProbe" not in container


@pytest.mark.parametrize(("timeout", "drain", "grace"), [("10m", "600", 630), ("0s", "0", 30)])
def test_a_pod_has_more_grace_than_its_drain_takes(timeout: str, drain: str, grace: int) -> None:
    one = a_fleet(drain={"timeout": timeout})

    hook = replica(one)["lifecycle"]["preStop"]["exec"]["command"]

    assert hook == ["neuronfleet-replica", "drain", "--timeout", drain]
    assert pod(one)["spec"]["terminationGracePeriodSeconds"] == grace


def test_the_replica_is_told_its_model_variant_canary_and_port() -> None:
    one = a_fleet(
        TRN2 | {"buckets": {"prefill": [128, 4096]}, "extraArgs": ["--seed", "7"]},
        canary={"prompt": "2 + 2 =", "maxTokens": 2, "expect": "4"},
    )

    assert told(one) == {
        "model": {
            "name": "llama-3.1-8b",
            "source": {
                "kind": "huggingFace",
                "location": "meta-llama/Llama-3.1-8B-Instruct",
                "revision": None,
            },
        },
        "variant": {
            "name": "trn2",
            "generation": 2,
            "tensorParallelDegree": 4,
            "logicalCoreSize": 2,
            "maxModelLen": 4096,
            "maxNumSeqs": 64,
            "weightDtype": "bfloat16",
            "computeDtype": "bfloat16",
            "kvCache": {"dtype": "bfloat16", "blocks": None, "blockSize": 32},
            "prefillBuckets": [128, 4096],
            "decodeBuckets": [],
            "speculation": None,
            "extraArgs": ["--seed", "7"],
            "env": {},
        },
        "canary": {"prompt": "2 + 2 =", "maxTokens": 2, "expect": "4"},
        "port": 8000,
    }


def test_kubernetes_expands_nothing_in_what_the_replica_is_told() -> None:
    one = a_fleet(INF2 | {"env": {"A": "$(HOME)"}}, canary={"prompt": "cost $(HOME) $$5"})

    assert told(one)["canary"]["prompt"] == "cost $(HOME) $$5"
    assert environment(replica(one))["A"] == "$$(HOME)"


def test_the_variants_environment_wins_over_ours_and_each_name_stands_once() -> None:
    container = replica(a_fleet(INF2 | {"env": {"VLLM_CACHE_ROOT": "/opt/graphs", "X": "1"}}))

    names = [one["name"] for one in container["env"]]
    assert environment(container)["VLLM_CACHE_ROOT"] == "/opt/graphs"
    assert len(names) == len(set(names))


def test_the_replicas_settings_cannot_be_given_by_hand() -> None:
    with pytest.raises(SpecError, match=r"spec.variants\[0\].env.NEURONFLEET_REPLICA"):
        pod(a_fleet(INF2 | {"env": {"NEURONFLEET_REPLICA": "{}"}}))


def test_the_image_is_the_variants_or_its_generations() -> None:
    assert replica(a_fleet())["image"] == SETTINGS.images[1]
    assert replica(a_fleet(TRN2))["image"] == SETTINGS.images[2]
    assert replica(a_fleet(INF2 | {"image": "mine:1"}))["image"] == "mine:1"


def test_no_image_is_an_error_that_names_the_field() -> None:
    gpu = {key: value for key, value in GPU.items() if key != "image"}

    with pytest.raises(SpecError, match=r"spec.variants\[1\].image = nothing.*a GPU"):
        pod(a_fleet(INF2, gpu), at=1)


def test_a_hubs_weights_need_its_token_and_a_place_to_lie() -> None:
    container = replica(a_fleet())

    token = next(one for one in container["env"] if one["name"] == "HF_TOKEN")
    assert token["valueFrom"] == {"secretKeyRef": {"name": "hf-token", "key": "token"}}
    assert environment(container)["HF_HOME"].startswith("/models/")
    assert {"name": "models", "emptyDir": {}} in pod(a_fleet())["spec"]["volumes"]


def test_weights_in_s3_are_read_as_the_service_account() -> None:
    source = {"s3": "s3://bucket/llama", "serviceAccount": "reader"}

    made = pod(a_fleet(model={"name": "m", "source": source}))["spec"]

    assert made["serviceAccountName"] == "reader"
    assert "automountServiceAccountToken" not in made


def test_without_a_service_account_no_token_is_mounted() -> None:
    assert pod(a_fleet())["spec"]["automountServiceAccountToken"] is False


def test_weights_on_a_claim_are_mounted_read_only() -> None:
    one = a_fleet(model={"name": "m", "source": {"pvc": "weights/llama/8b"}})

    mount = next(m for m in replica(one)["volumeMounts"] if m["mountPath"] == "/models")
    assert mount["readOnly"] is True
    assert {"name": "models", "persistentVolumeClaim": {"claimName": "weights"}} in pod(one)[
        "spec"
    ]["volumes"]
    assert environment(replica(one))["HF_HOME"].startswith("/tmp/")


def test_shared_memory_is_memory_and_at_most_a_quarter_of_the_share() -> None:
    limits = {
        name: next(v for v in pod(one)["spec"]["volumes"] if v["name"] == "shm")["emptyDir"]
        for name, one in {"inf2": a_fleet(), "trn2": a_fleet(TRN2)}.items()
    }

    assert limits == {
        "inf2": {"medium": "Memory", "sizeLimit": "4Gi"},
        "trn2": {"medium": "Memory", "sizeLimit": "8Gi"},
    }


def test_karpenter_leaves_a_replica_alone_from_its_birth() -> None:
    notes = pod(a_fleet(INF2 | {"pins": {"sdk": "2.28", "driver": "2.26"}}))["metadata"]

    assert notes["annotations"] == {
        "karpenter.sh/do-not-disrupt": "true",
        "neuronfleet.dev/pins": "sdk=2.28 driver=2.26",
    }
