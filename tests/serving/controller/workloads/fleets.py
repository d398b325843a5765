"""Fleets for the tests of manifests: one by hand, and hypothesis strategies for any."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.hardware import catalog
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller import workloads
from neuronfleet.serving.controller.workloads import WorkloadSettings

SETTINGS = WorkloadSettings(
    images={1: "registry.example/gen1@sha256:aa", 2: "registry.example/gen2@sha256:bb"},
    gateway_namespace="neuronfleet-system",
    gateway_labels={"app.kubernetes.io/name": "neuronfleet-gateway"},
    monitoring_namespace="monitoring",
    monitoring_labels={"app.kubernetes.io/name": "prometheus"},
)
OWNER = {
    "apiVersion": "neuronfleet.dev/v1alpha1",
    "kind": "ServingFleet",
    "name": "llama-8b",
    "uid": "1f6c0a52-0000-4000-8000-000000000000",
    "controller": True,
    "blockOwnerDeletion": True,
}
INF2 = {
    "name": "inf2",
    "instanceType": "inf2.xlarge",
    "tensorParallelDegree": 2,
    "maxModelLen": 2048,
    "maxNumSeqs": 32,
}
TRN2 = {
    "name": "trn2",
    "instanceType": "trn2.48xlarge",
    "backendGeneration": 2,
    "tensorParallelDegree": 4,
    "maxModelLen": 4096,
    "maxNumSeqs": 64,
}
GPU = {
    "name": "gpu",
    "instanceType": "g5.2xlarge",
    "image": "registry.example/vllm:1",
    "maxModelLen": 2048,
    "maxNumSeqs": 64,
}


def spec(*variants: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model": {
            "name": "llama-3.1-8b",
            "source": {"huggingFace": "meta-llama/Llama-3.1-8B-Instruct", "secret": "hf-token"},
        },
        "variants": [dict(one) for one in variants or (INF2,)],
        "objective": {"ttftMs": 3000, "tpotMs": 80},
        "traffic": {
            "open": {"requestsPerSecond": 1},
            "inputTokens": 512,
            "outputTokens": 128,
        },
        "replicas": 2,
    }
    return {key: value for key, value in (base | fields).items() if value is not None}


def a_fleet(*variants: Mapping[str, Any], name: str = "llama-8b", **fields: Any) -> ServingFleet:
    return fleet.from_object(
        {
            "apiVersion": "neuronfleet.dev/v1alpha1",
            "kind": "ServingFleet",
            "metadata": {"name": name},
            "spec": spec(*variants, **fields),
        }
    )


def deployment(one: ServingFleet, at: int = 0, **given: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "namespace": "team",
        "owner": OWNER,
        "replicas": 1,
        "boot_p99_s": 548.0,
        "ceiling": 32,
        "settings": SETTINGS,
    }
    return workloads.deployment(one, one.variants[at], **(arguments | given))


def pod(one: ServingFleet, at: int = 0, **given: Any) -> dict[str, Any]:
    template: dict[str, Any] = deployment(one, at, **given)["spec"]["template"]
    return template


def replica(one: ServingFleet, at: int = 0, **given: Any) -> dict[str, Any]:
    container: dict[str, Any] = pod(one, at, **given)["spec"]["containers"][0]
    return container


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def revision(one: ServingFleet, at: int = 0, restarted_at: str | None = None) -> str:
    return workloads.revision(one, one.variants[at], SETTINGS, restarted_at)


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
SOURCES: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [
        {"huggingFace": "org/model"},
        {"huggingFace": "org/model", "secret": "hf-token", "revision": "main"},
        {"s3": "s3://bucket/prefix", "serviceAccount": "reader"},
        {"pvc": "claim/llama/8b"},
        {"pvc": "claim"},
        {"path": "/opt/model"},
    ]
)


@st.composite
def variants(draw: st.DrawFn) -> dict[str, Any]:
    """Any variant that the parser takes."""
    instance = draw(st.sampled_from(sorted(catalog().values(), key=lambda one: one.name)))
    size = draw(st.sampled_from([1, 2])) if instance.family.startswith("trainium2") else None
    cores = instance.logical_cores(size or instance.logical_core_size or 1)
    top = cores if instance.is_neuron else instance.accelerators
    length = draw(st.integers(256, 8192))
    found: dict[str, Any] = {
        "name": draw(NAMES),
        "instanceType": instance.name,
        "tensorParallelDegree": draw(st.integers(1, max(1, top))),
        "logicalCoreSize": size,
        "capacityType": draw(
            st.sampled_from(["on-demand", "spot", "capacity-block", "reserved", None])
        ),
        "zones": draw(st.sampled_from([None, ["us-east-2a", "us-east-2b"], ["use2-az3"]])),
        "reservation": draw(st.sampled_from([None, {"id": "cr-0123456789abcdef0"}])),
        "image": None if instance.is_neuron else "registry.example/vllm:1",
        "maxModelLen": length,
        "maxNumSeqs": draw(st.integers(1, 256)),
        "buckets": draw(st.sampled_from([None, {"prefill": [128, 256], "decode": [256]}])),
        "speculation": draw(st.sampled_from([None, {"method": "ngram", "tokens": 3}])),
        "extraArgs": draw(st.lists(st.text(min_size=1, max_size=9), max_size=2)),
        "env": draw(st.dictionaries(NAMES, PRINTABLE, max_size=3)),
        "pins": draw(st.sampled_from([None, {"sdk": "2.28", "driver": "2.26"}])),
    }
    return {key: value for key, value in found.items() if value is not None}


@st.composite
def fleets(draw: st.DrawFn) -> ServingFleet:
    """Any fleet that the parser takes."""
    chosen = draw(st.lists(variants(), min_size=1, max_size=3, unique_by=lambda v: v["name"]))
    return a_fleet(
        *chosen,
        name=draw(NAMES),
        model={"name": "m", "source": draw(SOURCES)},
        drain={"timeout": f"{draw(st.integers(0, 86_400))}s"},
    )


def each(one: ServingFleet) -> list[tuple[int, Variant]]:
    return list(enumerate(one.variants))
