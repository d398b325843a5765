"""A revision changes with what pods are made of, and with nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.api.fleet import Scaling
from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.controller import workloads
from tests.serving.controller.workloads.fleets import (
    INF2,
    SETTINGS,
    TRN2,
    a_fleet,
    deployment,
    fleets,
    pod,
    revision,
)


def test_a_revision_is_eight_hex_digits_and_the_same_each_time() -> None:
    first, second = revision(a_fleet()), revision(a_fleet())

    assert first == second
    assert len(first) == 8
    assert int(first, 16) >= 0


@settings(max_examples=30)
@given(one=fleets(), count=st.integers(0, 10_000), ttft=st.floats(1, 10_000))
def test_counts_objective_traffic_and_bounds_are_not_in_it(
    one: Any, count: int, ttft: float
) -> None:
    other = replace(
        one,
        replicas=None,
        scaling=Scaling(min_replicas=count, max_replicas=max(1, count)),
        objective=Objective(ttft_ms=ttft, tpot_ms=9, percentile=50, attainment=0.5),
        traffic=replace(one.traffic, requests_per_second=None, concurrency=7),
        queue_s=1.0,
        metrics_max_age_s=9.0,
        regions=("us-east-2",),
    )

    assert revision(one) == revision(other)


def test_learned_boots_counts_and_ceilings_leave_a_deployment_in_its_revision() -> None:
    before = deployment(a_fleet(), boot_p99_s=548.0, ceiling=32, replicas=1)
    after = deployment(a_fleet(), boot_p99_s=2840.0, ceiling=63, replicas=9)

    assert before["metadata"]["name"] == after["metadata"]["name"]


def test_a_later_end_of_a_reservation_restarts_nothing() -> None:
    block = {"id": "cr-1", "endsAt": "2026-12-01T11:30:00Z"}

    short = a_fleet(INF2 | {"reservation": block})
    longer = a_fleet(INF2 | {"reservation": block | {"endsAt": "2026-12-02T11:30:00Z"}})

    assert revision(short) == revision(longer)


@pytest.mark.parametrize(
    "change",
    [
        {"instanceType": "trn1.2xlarge"},
        {"capacityType": "spot"},
        {"zones": ["us-east-2a"]},
        {"reservation": {"id": "cr-1"}},
        {"image": "registry.example/other:1"},
        {"tensorParallelDegree": 1},
        {"weightDtype": "int8"},
        {"computeDtype": "float16"},
        {"kvCache": {"dtype": "fp8"}},
        {"kvCache": {"blocks": 2048}},
        {"kvCache": {"blockSize": 64}},
        {"buckets": {"prefill": [1024, 2048]}},
        {"buckets": {"decode": [2048]}},
        {"speculation": {"method": "draft", "draftModel": "org/small", "tokens": 4}},
        {"maxModelLen": 1024},
        {"maxNumSeqs": 16},
        {"extraArgs": ["--seed", "1"]},
        {"env": {"NEURON_RT_EXEC_TIMEOUT": "600"}},
        {"pins": {"sdk": "2.28"}},
        {"podTemplate": {"metadata": {"labels": {"team": "x"}}}},
    ],
    ids=lambda change: "-".join(change),
)
def test_every_field_of_the_graph_key_and_of_the_pod_is_in_it(change: dict[str, Any]) -> None:
    assert revision(a_fleet(INF2 | change)) != revision(a_fleet(INF2))


def test_the_logical_core_size_and_the_backend_generation_are_in_it() -> None:
    made = {
        revision(a_fleet(TRN2)),
        revision(a_fleet(TRN2 | {"logicalCoreSize": 1})),
        revision(a_fleet(TRN2 | {"backendGeneration": 1})),
    }

    assert len(made) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"model": {"name": "other", "source": {"huggingFace": "org/model"}}},
        {"model": {"name": "llama-3.1-8b", "source": {"s3": "s3://bucket/llama"}}},
        {"canary": {"prompt": "2 + 2 =", "expect": "4"}},
        {"drain": {"timeout": "5m"}},
    ],
    ids=["model", "weights", "canary", "drain"],
)
def test_model_canary_and_drain_are_in_it(fields: dict[str, Any]) -> None:
    assert revision(a_fleet(**fields)) != revision(a_fleet())


def test_a_new_default_image_or_a_restart_asked_for_is_a_new_revision() -> None:
    one = a_fleet()
    newer = replace(SETTINGS, images={1: "registry.example/gen1@sha256:cc"})

    assert workloads.revision(one, one.variants[0], newer, None) != revision(one)
    assert revision(one, restarted_at="2026-11-30T12:00:00Z") != revision(one)
    assert (
        pod(one, restarted_at="now")["metadata"]["annotations"]["neuronfleet.dev/restarted-at"]
        == "now"
    )


def test_another_fleets_namespace_settings_do_not_touch_pods() -> None:
    one = a_fleet()
    moved = replace(SETTINGS, gateway_namespace="elsewhere", monitoring_namespace=None)

    assert workloads.revision(one, one.variants[0], moved, None) == revision(one)


@settings(max_examples=30)
@given(one=fleets(), boot=st.floats(1, 9000))
def test_two_templates_of_one_revision_differ_in_nothing_but_the_startup_probe(
    one: Any, boot: float
) -> None:
    first, second = pod(one), pod(one, boot_p99_s=boot)
    for template in (first, second):
        del template["spec"]["containers"][0]["startupProbe"]

    assert first == second
