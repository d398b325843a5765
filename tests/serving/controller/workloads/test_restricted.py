"""Whatever is declared, its pods are admitted under PodSecurity `restricted`."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronfleet.serving.api.problems import SpecError
from tests.serving.controller.workloads.fleets import (
    GPU,
    INF2,
    TRN2,
    a_fleet,
    fleets,
    pod,
    replica,
)
from tests.serving.controller.workloads.restricted import violations

KEYS = st.sampled_from(
    [
        "spec", "metadata", "containers", "initContainers", "volumes", "securityContext", "name",
        "privileged", "hostNetwork", "hostPath", "capabilities", "add", "runAsUser", "env",
        "runAsNonRoot", "seccompProfile", "type", "hostPort", "ports", "resources", "limits",
        "lifecycle", "preStop", "httpGet", "host", "annotations", "allowPrivilegeEscalation",
    ]
)  # fmt: skip
LEAVES = st.sampled_from([None, True, False, 0, 1, "replica", "x", "Unconfined", "ALL", "/"])
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["replica", "x"])}).flatmap(
        lambda named: st.dictionaries(KEYS, JUNK, max_size=3).map(lambda more: more | named)
    ),
    max_size=2,
)
TEMPLATES = st.fixed_dictionaries(
    {
        "spec": st.dictionaries(KEYS, JUNK, max_size=2)
        | st.fixed_dictionaries({"containers": CONTAINERS})
    }
)


@pytest.mark.parametrize("variant", [INF2, TRN2, GPU], ids=lambda one: one["name"])
@pytest.mark.parametrize(
    "source",
    [
        {"huggingFace": "org/model", "secret": "token"},
        {"s3": "s3://bucket/x", "serviceAccount": "reader"},
        {"pvc": "claim/x"},
        {"path": "/opt/model"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_every_kind_of_variant_and_source_is_restricted(
    variant: dict[str, Any], source: dict[str, str]
) -> None:
    assert violations(pod(a_fleet(variant, model={"name": "m", "source": source}))) == []


@settings(max_examples=60)
@given(one=fleets())
def test_any_fleet_is_restricted_and_its_replicas_root_is_read_only(one: Any) -> None:
    for at in range(len(one.variants)):
        assert violations(pod(one, at)) == []
        assert replica(one, at)["securityContext"]["readOnlyRootFilesystem"] is True


@settings(max_examples=300)
@given(template=TEMPLATES)
def test_no_pod_template_leads_out_of_it(template: dict[str, Any]) -> None:
    one = a_fleet(INF2 | {"podTemplate": template})

    assert violations(made_or_refused(one)) == []


def made_or_refused(one: Any) -> dict[str, Any]:
    """The pod, or where the template is refused that of the same variant without it."""
    try:
        return pod(one)
    except SpecError as refused:
        if "podTemplate" not in str(refused):
            raise
        return pod(a_fleet(INF2))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"volumes": [{"name": "v", "hostPath": {}}]}, "volume v: ['hostPath']"),
        ({"securityContext": {}}, "replica: runAsNonRoot"),
    ],
    ids=str,
)
def test_the_checker_itself_sees_what_is_not(change: dict[str, Any], found: str) -> None:
    made = pod(a_fleet())
    made["spec"] |= change

    assert found in violations(made)


@pytest.mark.parametrize("name", ["allowPrivilegeEscalation", "capabilities"])
def test_the_checker_wants_every_container_hardened(name: str) -> None:
    made = pod(a_fleet())
    container = made["spec"]["containers"][0]
    container["securityContext"] = {
        key: value for key, value in container["securityContext"].items() if key != name
    }

    assert len(violations(made)) == 1
