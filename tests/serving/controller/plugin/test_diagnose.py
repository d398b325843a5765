import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from neuronfleet.serving.api import crd
from neuronfleet.serving.api.status import FleetStatus
from neuronfleet.serving.controller.plugin.doctor import view
from neuronfleet.serving.controller.plugin.doctor.diagnose import CHECKS, diagnose
from neuronfleet.serving.controller.plugin.doctor.facts import Facts, Named, named
from neuronfleet.serving.controller.plugin.doctor.findings import Finding, Level, worst
from neuronfleet.serving.controller.plugin.reader import Unseen
from tests.controller_world import stamp, variant
from tests.schema import check
from tests.serving.controller.plugin.objects import (
    NOW,
    SPACE,
    Body,
    condition,
    deployment,
    facts,
    fleet,
    gateway_pod,
    guard,
    lease,
    node,
    pinned,
    pod,
    printed,
    rollout,
    status,
    waiting,
)

NODE = "ip-10-0-1-2.us-east-2.compute.internal"
POD = "f-inf2-aaaaaaaa-7d9f8b6c5d-x2k4q"


def found(name: str, **changes: Any) -> list[Finding]:
    """What one check says."""
    return [one for one in diagnose(facts(**changes)) if one.check == name]


def said(name: str, level: str, **changes: Any) -> str:
    """What one check says at a level, a line each."""
    return "\n".join(one.says for one in found(name, **changes) if one.level == level)


def with_status(**changes: Any) -> Body:
    return fleet(status(**changes), variants=[pinned()])


def test_a_healthy_fleet_passes_every_check() -> None:
    everything = diagnose(facts())

    assert list(dict.fromkeys(one.check for one in everything)) == [name for name, _ in CHECKS]
    assert {one.level for one in everything} == {Level.OK}, everything


def test_what_was_not_read_is_unknown_and_neither_ok_nor_a_failure() -> None:
    unread = {
        one.name: Unseen(why="not allowed to list x")
        for one in fields(Facts)
        if "Unseen" in str(one.type) and one.name != "exists"
    }

    everything = diagnose(facts(**unread))

    assert worst(everything) is Level.WARN
    blind = {one.check for one in everything if one.says == "unknown: not allowed to list x"}
    assert blind >= {
        "crd", "controller", "gateway", "pins", "deployments", "placed", "started", "booted",
        "quotas", "budget", "policies", "nodes",
    }  # fmt: skip


def test_every_finding_that_is_not_ok_says_what_to_do() -> None:
    sick = facts(
        fleet=fleet(FleetStatus(), variants=[variant(tensorParallelDegree=0)]),
        controller_leases=(),
        gateway_leases=(),
        pods=(waiting("CrashLoopBackOff"),),
        nodes=(node(ready="False"),),
        budgets=(),
        policies=(),
    )

    bad = [one for one in diagnose(sick) if one.level is not Level.OK]

    assert len(bad) > 8
    assert all(one.do for one in bad)


def test_a_spec_that_cannot_be_read_names_the_field() -> None:
    broken = fleet(variants=[variant(maxNumSeqs=0)])

    assert "spec.variants[0].maxNumSeqs = 0" in said("spec", "fail", fleet=broken)
    assert "the spec cannot be read" in said("variants", "warn", fleet=broken)


def test_a_crd_of_another_version_fails() -> None:
    other = crd.definition()
    other["spec"]["versions"][0]["name"] = "v1"

    assert "serves v1 and not v1alpha1" in said("crd", "fail", crd=other)


def test_an_older_crd_is_told_with_what_it_lacks() -> None:
    older = crd.definition()
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["canary"]

    assert "it does not know spec.canary" in said("crd", "warn", crd=older)


@pytest.mark.parametrize(
    ("leases", "says"),
    [
        ((), "no Lease of a controller"),
        ((lease("c", None),), "nobody holds the Lease in neuronfleet"),
        ((lease("c", "c-1", age_s=65),), "c-1 last renewed its Lease 65s ago; it lasts 5s"),
    ],
)
def test_a_controller_that_does_not_lead_fails(leases: tuple[Body, ...], says: str) -> None:
    assert says in said("controller", "fail", controller_leases=leases)


def test_a_lease_lapses_when_its_time_and_the_clocks_second_are_over() -> None:
    assert found("controller", controller_leases=(lease("c", "c-1", 6.5),))[0].level is Level.OK
    assert found("controller", controller_leases=(lease("c", "c-1", 7.5),))[0].level is Level.FAIL


def test_one_fresh_lease_among_old_ones_is_enough() -> None:
    two = (lease("c", "old-1", age_s=900), lease("c", "new-1"))

    assert "new-1 in neuronfleet holds" in said("controller", "ok", controller_leases=two)


def test_a_status_behind_the_spec_is_told() -> None:
    behind = fleet(status(), variants=[pinned()], generation=3)

    assert "answers generation 1, the spec is at 3" in said("controller", "warn", fleet=behind)
    dead = said("controller", "fail", fleet=behind, controller_leases=())
    assert "answers generation 1, the spec is at 3" in dead


def test_a_status_never_written_fails_after_a_minute() -> None:
    old = fleet(FleetStatus(), variants=[pinned()])
    old["metadata"]["creationTimestamp"] = stamp(NOW - 3600)
    new = fleet(FleetStatus(), variants=[pinned()])

    assert "never written the status of this fleet" in said("controller", "fail", fleet=old)
    assert "made 0s ago" in said("controller", "warn", fleet=new)


@pytest.mark.parametrize(
    ("pods", "level", "says"),
    [
        ((gateway_pod("gateway-1"),), "warn", "1 of 1 pods in neuronfleet are ready: none stands"),
        (
            (gateway_pod("gateway-1", ready=False), gateway_pod("gateway-2")),
            "fail",
            "the active one, gateway-1, is not",
        ),
        ((gateway_pod("gateway-2"),), "fail", "holder gateway-1 is no pod in neuronfleet"),
    ],
)
def test_a_gateway_is_an_active_pod_and_one_that_stands_by(
    pods: tuple[Body, ...], level: str, says: str
) -> None:
    assert says in said("gateway", level, gateway_pods=pods)


def test_metrics_that_are_not_known_fail_with_where_to_look() -> None:
    one = condition("MetricsAvailable", "False", "Missing", "no series of this fleet's queue")
    [finding] = found("metrics", fleet=with_status(conditions=(one,)))

    assert finding.level is Level.FAIL
    assert "Missing: no series" in finding.says
    assert "PodMonitor" in (finding.do or "")
    assert "unknown" in said("metrics", "warn", fleet=with_status(conditions=()))


def test_a_wall_names_the_variant() -> None:
    tight = fleet(variants=[pinned(maxModelLen=256)])

    assert "inf2: requests of 200 + 60 tokens exceed maxModelLen 256" in said(
        "variants", "fail", fleet=tight
    )


def test_an_unknown_architecture_is_told() -> None:
    other = fleet(model={"name": "m", "source": {"huggingFace": "a/b"}}, variants=[pinned()])

    assert "unknown: the model's architecture" in said("variants", "warn", fleet=other)


def test_a_pair_of_versions_that_clashes_fails() -> None:
    other = node(labels={"neuronfleet.dev/driver": "2.20"})

    assert f"pins driver 2.26, node {NODE} has 2.20" in said("pins", "fail", nodes=(other,))


def test_a_variant_without_pins_is_unknown() -> None:
    unsure = fleet(variants=[variant()])

    assert "unknown: variant inf2 pins no SDK" in said("pins", "warn", fleet=unsure)


def test_a_pod_that_finds_no_node_quotes_the_scheduler() -> None:
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient aws.amazon.com/neuron",
    }

    def waits(age_s: float) -> Body:
        return pod(ready=False, node=None, age_s=age_s, conditions=[unplaced])

    assert "waits 60s: 0/3 nodes are available" in said("placed", "warn", pods=(waits(60),))
    assert "waits 10m: 0/3 nodes" in said("placed", "fail", pods=(waits(600),))


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"]
)
def test_an_image_that_cannot_be_pulled_is_named(reason: str) -> None:
    shown = said("started", "fail", pods=(waiting(reason, "manifest unknown"),))

    assert f"{POD} replica: {reason} manifest unknown (neuron:1)" in shown


def test_a_crash_loop_tells_how_the_container_died_and_its_last_line() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "old"}}
    body = waiting("CrashLoopBackOff", restartCount=7, lastState=ended)

    [finding] = found("started", pods=(body,), last_words={POD: "loading\nout of memory\n"})

    assert finding.says == f"{POD} died 7 times (exit 137 OOMKilled), last words: out of memory"
    assert "a larger instance" in (finding.do or "")
    [without] = found("started", pods=(body,))
    assert without.says.endswith("last words: old")


def test_restarts_before_it_served_warn_and_then_fail() -> None:
    def died(times: int) -> Body:
        return pod(ready=False, age_s=100, container={"restartCount": times})

    assert "died 1 times (unknown), last words: unknown" in said("started", "warn", pods=(died(1),))
    assert "died 3 times" in said("started", "fail", pods=(died(3),))


def test_a_missing_key_of_a_secret_stops_a_container() -> None:
    body = waiting("CreateContainerConfigError", "couldn't find key token in Secret serving/hf")

    assert "couldn't find key token" in said("started", "fail", pods=(body,))


def test_a_boot_beyond_its_p99_warns_and_fails_at_twice_that() -> None:
    def boots(age_s: float) -> Body:
        return pod(ready=False, age_s=age_s)

    probe = event("Startup probe failed: canary: no answer")
    assert "boots for 12m, P99 is 10m (Startup probe failed: canary: no answer)" in said(
        "booted", "warn", pods=(boots(700),), events=(probe,)
    )
    assert "boots for 22m" in said("booted", "fail", pods=(boots(1300),))
    assert found("booted", pods=(boots(300),))[0].level is Level.OK


def test_a_startup_probe_that_gave_up_fails_whatever_the_age() -> None:
    gone = event("Container replica failed startup probe, will be restarted")
    body = pod(ready=False, age_s=60)

    assert "its startup probe gave up" in said("booted", "fail", pods=(body,), events=(gone,))


def test_a_replica_that_served_and_fails_its_canary_is_told() -> None:
    body = pod(ready=False, container={"started": True})
    probe = event("Readiness probe failed: the answer was 'London'")

    shown = said("booted", "fail", pods=(body,), events=(probe,))

    assert "has not answered its canary for 30m (Readiness probe failed" in shown


def event(message: str) -> Body:
    return {
        "involvedObject": {"name": POD},
        "message": message,
        "lastTimestamp": stamp(NOW - 5),
    }


def test_pods_that_are_refused_quote_who_refused() -> None:
    refused = deployment(
        conditions=[
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: devices"}
        ]
    )

    assert "exceeded quota: devices" in said("deployments", "fail", deployments=(refused,))


def test_a_fleet_that_is_to_have_replicas_and_no_deployment_fails() -> None:
    assert "2 replicas are desired and there is no" in said("deployments", "fail", deployments=())
    advisory = fleet(status(), variants=[pinned()], mode="Advisory")
    assert found("deployments", fleet=advisory, deployments=())[0].level is Level.OK


def test_capacity_and_bounds_are_told_from_their_conditions() -> None:
    short = condition("CapacityAvailable", "False", "NoCapacity", "inf2: no node")
    bound = condition("ScalingLimited", "True", "AtMaximum", "maxReplicas = 4")
    sick = with_status(conditions=(short, bound))

    assert "NoCapacity: inf2: no node" in said("capacity", "fail", fleet=sick)
    assert "AtMaximum: maxReplicas = 4" in said("capacity", "warn", fleet=sick)


def quota(hard: Mapping[str, str], used: Mapping[str, str]) -> Body:
    return {"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}


@pytest.mark.parametrize(
    ("hard", "used", "says"),
    [
        (
            {"requests.aws.amazon.com/neuron": "8"},
            {"requests.aws.amazon.com/neuron": "8"},
            "8 of 8",
        ),
        ({"pods": "10"}, {"pods": "10"}, "q: 10 of 10 pods are used"),
        ({"requests.memory": "1Gi"}, {"requests.memory": "1024Mi"}, "1024Mi of 1Gi"),
        ({"requests.memory": "2Gi"}, {"requests.memory": "1024Mi"}, ""),
        ({"count/configmaps": "1"}, {"count/configmaps": "1"}, ""),
        ({"pods": "10"}, {"pods": "9"}, ""),
    ],
)
def test_a_quota_without_room_for_another_replica_warns(
    hard: Mapping[str, str], used: Mapping[str, str], says: str
) -> None:
    shown = said("quotas", "warn", quotas=(quota(hard, used),))

    assert says in shown
    assert bool(says) == bool(shown)


def test_references_that_are_missing_fail_and_those_unread_are_unknown() -> None:
    secret, claim = Named("Secret", "hf"), Named("PersistentVolumeClaim", "weights")
    account = Named("ServiceAccount", "reader")
    exists = {secret: False, claim: True, account: Unseen(why="not allowed to get serviceaccounts")}

    assert said("references", "fail", exists=exists) == f"Secret hf is not in namespace {SPACE}"
    assert "PersistentVolumeClaim weights is there" in said("references", "ok", exists=exists)
    assert "not allowed" in said("references", "warn", exists=exists)


def test_a_spec_names_objects_in_its_source_and_its_pod_templates() -> None:
    template = {
        "spec": {
            "serviceAccountName": "reader",
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "tls"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "cache"}},
                {"name": "x", "secret": {"secretName": "maybe", "optional": True}},
            ],
            "containers": [
                {
                    "env": [{"valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
                    "envFrom": [{"secretRef": {"name": "may", "optional": True}}],
                }
            ],
        }
    }
    body = fleet(
        model={"name": "m", "source": {"pvc": "weights/llama", "secret": "hf"}},
        variants=[variant(podTemplate=template)],
    )

    assert {f"{one.kind}/{one.name}" for one in named(body)} == {
        "ServiceAccount/reader",
        "Secret/registry",
        "Secret/tls",
        "Secret/key",
        "Secret/hf",
        "PersistentVolumeClaim/cache",
        "PersistentVolumeClaim/weights",
    }
    assert named({"metadata": {}}) == ()


def test_two_budgets_over_the_same_replicas_fail() -> None:
    other = guard("PodDisruptionBudget")
    other["metadata"]["name"] = "mine"

    budgets = (guard("PodDisruptionBudget"), other)

    assert "f, mine all select the replicas" in said("budget", "fail", budgets=budgets)


def test_a_budget_that_holds_up_a_drain_is_told_with_the_node() -> None:
    tight = guard("PodDisruptionBudget", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    cordoned = node(spec={"unschedulable": True})

    shown = said("budget", "warn", budgets=(tight,), nodes=(cordoned,))

    assert shown == f"1 replicas are healthy, 1 must be: the drain of {NODE} waits"
    assert found("budget", budgets=(tight,))[0].level is Level.OK
    assert "none" in said("budget", "warn", budgets=())


def test_replicas_without_a_policy_fail() -> None:
    assert "any pod may reach the replicas" in said("policies", "fail", policies=())


@pytest.mark.parametrize(
    ("sick", "level", "says"),
    [
        (node(ready="Unknown"), "fail", "does not answer"),
        (
            node(conditions=[{"type": "NeuronHealth", "status": "True", "reason": "HbmError"}]),
            "fail",
            "NeuronHealth HbmError",
        ),
        (node(spec={"taints": [{"key": "karpenter.sh/disrupted"}]}), "warn", "about to be taken"),
        (node(spec={"unschedulable": True}), "warn", "is cordoned"),
    ],
)
def test_an_ill_node_of_a_replica_is_told(sick: Body, level: str, says: str) -> None:
    assert says in said("nodes", level, nodes=(sick,))


def test_an_ill_node_without_a_replica_is_not_this_fleets() -> None:
    assert found("nodes", nodes=(node(), node("other", ready="False")))[0].level is Level.OK


def test_a_rollback_fails_with_its_reason_and_a_rollout_does_not() -> None:
    back = with_status(rollout=rollout("RolledBack"))

    assert "revision bbbbbbbb was rolled back: f-inf2-bbbbbbbb-1 waits" in said(
        "rollout", "fail", fleet=back
    )
    going = with_status(rollout=rollout("Moving"))
    assert "Moving" in said("rollout", "ok", fleet=going)


def test_80_columns_hold_every_line() -> None:
    sick = facts(pods=(waiting("ImagePullBackOff", "x" * 400),), policies=(), budgets=())

    shown = printed(lambda out: view.show(SPACE, "f", diagnose(sick), out))

    assert max(map(len, shown.splitlines())) <= 80
    assert "fail  started" in shown
    assert "-> see the variant's image" in shown
    assert shown.splitlines()[-1] == "serving/f: 16 ok, 1 warn, 2 fail"


@pytest.mark.parametrize("sick", [facts(), facts(pods=(), policies=())], ids=["well", "ill"])
def test_the_json_is_what_its_schema_says(sick: Facts) -> None:
    findings = diagnose(sick)
    document = view.document(SPACE, "f", findings)

    check(json.loads(json.dumps(document)), "kubectl-doctor")
    assert document["worst"] == str(worst(findings))
