"""Whether what is around the replicas lets them be: objects named, quotas, budgets, nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.plugin.doctor.findings import Finding, fail, ok, unknown, warn
from neuronfleet.serving.controller.plugin.reader import Body, Unseen
from neuronfleet.serving.controller.plugin.selectors import selects
from neuronfleet.serving.controller.records import FLEET_LABEL, NodeRecord
from neuronfleet.serving.controller.workloads import placement


def references(facts: Facts) -> Iterator[Finding]:
    """What the spec names is there."""
    for one, found in facts.exists.items():
        if isinstance(found, Unseen):
            yield unknown(found)
        elif found:
            yield ok(f"{one.kind} {one.name} is there (what it holds was not read)")
        else:
            text = f"{one.kind} {one.name} is not in namespace {facts.namespace}"
            yield fail(text, "make it, or change the name in the spec")
    if not facts.exists:
        yield ok("the spec names no Secret, claim or service account")


def quotas(facts: Facts) -> Iterator[Finding]:
    """Quotas leave room for another replica."""
    if isinstance(facts.quotas, Unseen):
        yield unknown(facts.quotas)
        return
    needs = _needs(facts)
    full = [text for one in facts.quotas for text in _full(one, needs)]
    for text in full:
        yield warn(text, "raise the quota, or lower maxReplicas: no further replica is admitted")
    if not full:
        yield ok(f"{len(facts.quotas)} in the namespace, with room for another replica")


def _needs(facts: Facts) -> Mapping[str, int]:
    """The most devices that one replica of any variant requests, by quota key."""
    found = {"pods": 1, "count/pods": 1}
    for variant in () if isinstance(facts.spec, SpecError) else facts.spec.variants:
        key = f"requests.{placement.device_resource(variant)}"
        found[key] = max(found.get(key, 0), variant.devices)
    return found


def _full(quota: Body, needs: Mapping[str, int]) -> Iterator[str]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    for key, limit in hard.items():
        if key.startswith(("count/", "services", "persistentvolumeclaims")) and key not in needs:
            continue
        taken = used.get(key, "0")
        left = parse_quantity(limit) - parse_quantity(taken)  # type: ignore[no-untyped-call]
        # Of what a replica's need is not known, all being used is the least that stops one.
        if left < needs[key] if key in needs else left <= 0:
            yield f"{quota['metadata']['name']}: {taken} of {limit} {key} are used"


def budgets(facts: Facts) -> Iterator[Finding]:
    """One budget guards the replicas, and stops no drain for good."""
    if isinstance(facts.budgets, Unseen):
        yield unknown(facts.budgets)
        return
    labels = _replica_labels(facts)
    mine = [one for one in facts.budgets if selects(one["spec"].get("selector"), labels)]
    names = ", ".join(one["metadata"]["name"] for one in mine)
    if not mine:
        yield warn("none: an eviction may take every replica at once", "see the check `controller`")
    elif len(mine) > 1:
        text = f"{names} all select the replicas: the API server then refuses every eviction"
        yield fail(text, "delete those that the controller did not make")
    else:
        yield _allowance(mine[0], facts)


def _allowance(budget: Body, facts: Facts) -> Finding:
    status = budget.get("status") or {}
    allowed = status.get("disruptionsAllowed")
    if allowed is None:
        return warn(f"{budget['metadata']['name']}: unknown what it allows", "ask again")
    draining = sorted(node.name for node in _mine(facts) if node.cordoned or node.disrupted)
    if allowed == 0 and draining:
        healthy, wanted = status.get("currentHealthy"), status.get("desiredHealthy")
        text = f"{healthy} replicas are healthy, {wanted} must be: the drain of "
        return warn(
            f"{text}{', '.join(draining)} waits",
            "wait for the replica that boots in its place: see the checks `placed` and `booted`",
        )
    return ok(f"{budget['metadata']['name']} allows {allowed} evictions now")


def policies(facts: Facts) -> Iterator[Finding]:
    """Replicas are reached by the gateway alone."""
    if isinstance(facts.policies, Unseen):
        yield unknown(facts.policies)
        return
    labels = _replica_labels(facts)
    mine = [
        one["metadata"]["name"]
        for one in facts.policies
        if selects(one["spec"].get("podSelector"), labels)
    ]
    if mine:
        yield ok(f"{', '.join(mine)} guard the replicas, if the CNI enforces them")
    else:
        text = "none: any pod may reach the replicas past the gateway and its keys"
        yield fail(text, "see the check `controller`, which makes it before any replica")


def nodes(facts: Facts) -> Iterator[Finding]:
    """The replicas' nodes are well."""
    if isinstance(facts.nodes, Unseen) or isinstance(facts.pods, Unseen):
        for one in (facts.nodes, facts.pods):
            if isinstance(one, Unseen):
                yield unknown(one)
        return
    found = [finding for node in _mine(facts) for finding in _ill(node)]
    yield from found
    if not found:
        yield ok(f"{len(_mine(facts))} with replicas, all ready")


def _ill(node: NodeRecord) -> Iterator[Finding]:
    if node.unhealthy:
        do = "its replicas are drained and replaced; then replace the node"
        yield fail(f"{node.name}: NeuronHealth {node.unhealthy}", do)
    if not node.ready:
        do = f"kubectl describe node {node.name}: its kubelet is silent; delete it if it is gone"
        yield fail(f"{node.name} does not answer", do)
    if node.disrupted:
        yield warn(f"{node.name} is about to be taken", "nothing: its replicas move")
    elif node.cordoned:
        do = f"finish the drain, or kubectl uncordon {node.name}"
        yield warn(f"{node.name} is cordoned", do)


def _mine(facts: Facts) -> list[NodeRecord]:
    """Nodes that carry replicas of the fleet; none where either is unknown."""
    if isinstance(facts.nodes, Unseen) or isinstance(facts.pods, Unseen):
        return []
    used = {pod["spec"].get("nodeName") for pod in facts.pods}
    return [node for node in map(records.node, facts.nodes) if node.name in used]


def _replica_labels(facts: Facts) -> Mapping[str, Any]:
    """Labels of a replica: those of one that is there, or what all of them have."""
    seen = () if isinstance(facts.pods, Unseen) else facts.pods
    for pod in seen:
        labels: Mapping[str, Any] = pod["metadata"].get("labels") or {}
        return labels
    return {
        records.MANAGED_LABEL: records.MANAGER,
        "app.kubernetes.io/component": "replica",
        FLEET_LABEL: facts.name,
    }
