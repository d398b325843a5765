"""Deployments, Services and budgets: what is owned, and what an eviction may take."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller import workloads
from neuronfleet.serving.controller.workloads import WorkloadSettings
from tests.serving.controller.workloads.fleets import (
    OWNER,
    SETTINGS,
    a_fleet,
    deployment,
    fleets,
    pod,
    revision,
)


def service(one: Any, **given: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "namespace": "team",
        "owner": OWNER,
        "ceiling": 32,
        "settings": SETTINGS,
    }
    return workloads.service(one, one.variants[0], **(arguments | given))


def budget(serving: int) -> dict[str, Any]:
    made: dict[str, Any] = workloads.disruption_budget(
        a_fleet(), namespace="team", owner=OWNER, serving=serving
    )["spec"]
    return made


def nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return any(nulls(item) for item in value.values())
    return any(nulls(item) for item in value) if isinstance(value, list) else value is None


def test_a_count_that_somebody_else_owns_is_left_out() -> None:
    assert "replicas" not in deployment(a_fleet(), replicas=None)["spec"]
    assert deployment(a_fleet(), replicas=0)["spec"]["replicas"] == 0


def test_a_rolling_update_never_has_fewer_replicas() -> None:
    assert deployment(a_fleet())["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": 0,
        "maxSurge": 1,
    }


@given(boot=st.floats(1, 20_000))
def test_a_rollout_is_not_called_stuck_before_its_boot_is_called_hung(boot: float) -> None:
    made = deployment(a_fleet(), boot_p99_s=boot)["spec"]
    probe = made["template"]["spec"]["containers"][0]["startupProbe"]

    assert made["progressDeadlineSeconds"] > probe["failureThreshold"] * probe["periodSeconds"]
    assert made["progressDeadlineSeconds"] > boot


@given(boot=st.floats(1, 20_000))
def test_the_boot_that_a_deployment_notes_gives_back_the_same_pods(boot: float) -> None:
    first = deployment(a_fleet(), boot_p99_s=boot)
    noted = float(first["metadata"]["annotations"]["neuronfleet.dev/boot-p99-seconds"])

    assert deployment(a_fleet(), boot_p99_s=noted) == first


def test_deployment_pods_and_service_carry_the_labels_of_the_contract() -> None:
    one = a_fleet()
    expected = {
        "app.kubernetes.io/managed-by": "neuronfleet",
        "app.kubernetes.io/component": "replica",
        "neuronfleet.dev/fleet": "llama-8b",
        "neuronfleet.dev/variant": "inf2",
        "neuronfleet.dev/revision": revision(one),
    }

    assert pod(one)["metadata"]["labels"] == expected
    for made in (deployment(one), service(one)):
        assert made["metadata"]["labels"] == expected | {"neuronfleet.dev/ceiling": "32"}
        assert made["metadata"]["name"] == f"llama-8b-inf2-{revision(one)}"
        assert made["metadata"]["ownerReferences"] == [OWNER]


def test_a_new_ceiling_relabels_the_service_and_restarts_nothing() -> None:
    one = a_fleet()

    assert service(one, ceiling=63)["metadata"]["labels"]["neuronfleet.dev/ceiling"] == "63"
    assert pod(one, ceiling=63) == pod(one, ceiling=32)


def test_a_service_is_headless_and_selects_one_revision() -> None:
    one = a_fleet()

    made = service(one)["spec"]

    assert made["clusterIP"] == "None"
    assert made["selector"] == deployment(one)["spec"]["selector"]["matchLabels"]
    assert made["ports"] == [
        {"name": "http", "port": 8000, "protocol": "TCP", "targetPort": "http"}
    ]


def test_of_two_or_more_replicas_some_may_go_and_an_only_one_waits_for_another() -> None:
    assert budget(0)["minAvailable"] == budget(1)["minAvailable"] == 1
    assert budget(2)["maxUnavailable"] == budget(1000)["maxUnavailable"] == "2%"
    assert not {"minAvailable", "maxUnavailable"} <= set(budget(2))


def test_replicas_that_do_not_serve_may_always_go() -> None:
    assert budget(1)["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_budget_covers_every_variant_and_revision() -> None:
    selected = budget(2)["selector"]["matchLabels"]

    assert selected.items() <= pod(a_fleet())["metadata"]["labels"].items()
    assert "neuronfleet.dev/variant" not in selected


@settings(max_examples=40)
@given(one=fleets())
def test_manifests_hold_no_nulls_and_every_selector_finds_its_pods(one: Any) -> None:
    for at, variant in enumerate(one.variants):
        made = deployment(one, at)
        labels = made["spec"]["template"]["metadata"]["labels"]

        assert not nulls(made)
        assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert all(len(value) <= 63 for value in labels.values()), variant.name


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gateway_labels": {}}, "gateway_labels = nothing"),
        ({"dns_labels": {}}, "dns_labels = nothing"),
        ({"monitoring_namespace": "m"}, "monitoring_labels = nothing"),
        ({"request_share": 1.5}, r"request_share = 1.5, must be in \[0, 1\]"),
        ({"user": 0}, "user = 0"),
        ({"startup_margin": 0.5}, "startup_margin = 0.5"),
    ],
    ids=str,
)
def test_settings_that_would_open_or_stop_everything_are_refused(
    wrong: dict[str, Any], said: str
) -> None:
    base: dict[str, Any] = {
        "images": {},
        "gateway_namespace": "g",
        "gateway_labels": {"app": "gateway"},
    }

    with pytest.raises(SpecError, match=said):
        WorkloadSettings(**(base | wrong))
