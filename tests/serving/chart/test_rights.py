"""The rendered roles against the list of what each right is for."""

from typing import Any

import pytest

from neuronfleet.serving.controller import kube, operator
from tests.serving.chart import rights
from tests.serving.chart.charts import NAMESPACE, Object, render
from tests.serving.chart.rights import Right, Where, differences

pytestmark = pytest.mark.cluster  # helm is built with the cluster's programs
LIST = rights.wanted("neuronfleet-controller", "neuronfleet-gateway")
TEAMS = ["team-a", "team-b"]


def found(objects: list[Object]) -> dict[Right, set[str]]:
    return rights.granted(objects, NAMESPACE, "controller") | rights.granted(
        objects, NAMESPACE, "gateway"
    )


def over_the_whole_cluster() -> set[Right]:
    """A right to all EndpointSlices is one to the release's own."""
    own = ("gateway", Where.HOME, "endpointslices")
    return {one for one in LIST if (one.part, one.where, one.resource) != own}


def test_in_namespaces_each_right_is_listed_and_each_listed_one_is_there() -> None:
    made = found(render({"watchNamespaces": TEAMS}))

    assert not differences(LIST, made)
    for right, namespaces in made.items():
        expected = {
            Where.HOME: {NAMESPACE},
            Where.FLEETS: set(TEAMS),
            Where.CLUSTER: {"*"},
        }
        assert namespaces == expected[right.where], right


def test_over_the_whole_cluster_too() -> None:
    made = found(render())

    assert not differences(over_the_whole_cluster(), made)
    assert all(
        namespaces == ({NAMESPACE} if right.where is Where.HOME else {"*"})
        for right, namespaces in made.items()
    )


def test_fleets_beside_the_release_need_no_further_role() -> None:
    made = render({"watchNamespaces": [NAMESPACE]})

    slices = [
        one["metadata"]["name"]
        for one in made
        if one["kind"] == "Role"
        and "endpointslices" in str(one["rules"])
        and "gateway" in one["metadata"]["name"].split("-", 1)[1]
        and "controller" not in one["metadata"]["name"]
    ]
    assert len(slices) == 1


@pytest.mark.parametrize("right", LIST, ids=str)
def test_one_verb_too_few_is_seen(right: Right) -> None:
    (said,) = differences(LIST, [one for one in LIST if one != right])

    assert said == f"too few: {right}"


def test_one_verb_too_many_is_seen() -> None:
    role: Any = next(one for one in render() if one["kind"] == "ClusterRole")
    role = {**role, "rules": [*role["rules"], secrets_rule()]}
    others = [one for one in render() if one["metadata"]["name"] != role["metadata"]["name"]]
    binding = [one for one in render() if one["kind"] == "ClusterRoleBinding"]

    made = found([role, *binding, *(one for one in others if one not in binding)])

    (said,) = differences(over_the_whole_cluster(), made)
    assert said.startswith("too many: ")
    assert "secrets" in said


def secrets_rule() -> dict[str, list[str]]:
    return {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


def test_every_right_has_a_reason() -> None:
    assert all(LIST.values())


def test_nothing_is_a_wildcard_and_no_secret_is_read() -> None:
    for right in LIST:
        assert "*" not in (right.group, right.resource, right.verb)
        assert right.resource not in ("secrets", "configmaps", "pods/exec", "roles")


def test_what_the_controller_watches_is_listed() -> None:
    watched = {(group, plural) for _, group, _, plural, _ in operator._WATCHED}
    allowed = {
        verb: {
            (one.group, one.resource)
            for one in LIST
            if one.part == "controller" and one.verb == verb and one.where is not Where.HOME
        }
        for verb in ("list", "watch")
    }

    assert allowed == {"list": watched, "watch": watched}


def test_what_the_controller_writes_is_listed() -> None:
    written = {plural for kind, (_, plural) in kube._PATHS.items() if kind not in ("ServingFleet",)}
    allowed = {
        one.resource for one in LIST if one.part == "controller" and one.verb in ("patch", "create")
    }

    assert allowed == written | {"servingfleets/status", "leases"}


def test_an_account_is_mounted_only_by_the_pods_that_ask_the_api() -> None:
    made = render()
    accounts = [one for one in made if one["kind"] == "ServiceAccount"]
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]

    assert [one["automountServiceAccountToken"] for one in accounts] == [False, False]
    assert [one["automountServiceAccountToken"] for one in pods] == [True, True]
    assert len({pod["serviceAccountName"] for pod in pods}) == 2
