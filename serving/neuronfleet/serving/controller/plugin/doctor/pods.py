"""Whether replicas come up: made, placed, pulled, started and answering."""

from collections.abc import Iterator

from neuronfleet.serving.api.fleet import Mode, ServingFleet
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.plugin.doctor.findings import Finding, fail, ok, unknown, warn
from neuronfleet.serving.controller.plugin.reader import Body, Unseen
from neuronfleet.serving.controller.plugin.top.rows import PULL_FAILURES, START_FAILURES
from neuronfleet.serving.controller.plugin.words import span
from neuronfleet.serving.controller.records import PodRecord
from neuronfleet.serving.controller.view import Patience

_USUAL = Patience()
"""The controller's patience where an installation sets no other."""
_QUOTED = 300
"""Characters of others' messages that are shown."""


def made(facts: Facts) -> Iterator[Finding]:
    """Deployments are there and make pods."""
    if isinstance(facts.deployments, Unseen):
        yield unknown(facts.deployments)
        return
    wanted = facts.status.desired
    acts = isinstance(facts.spec, ServingFleet) and facts.spec.mode is Mode.ACTIVE
    if not facts.deployments and wanted and acts:
        text = f"{wanted} replicas are desired and there is no Deployment"
        yield fail(text, "see the checks `controller` and `variants`")
    refused = [said for one in facts.deployments if (said := _refused(one))]
    for refusal in refused:
        yield fail(refusal, "mend what refuses the pods: a quota, a policy or an admission webhook")
    if facts.deployments and not refused:
        yield ok(f"{len(facts.deployments)} of the fleet, none refused a pod")
    elif not facts.deployments and not (wanted and acts):
        yield ok("none, and none is desired")


def _refused(deployment: Body) -> str | None:
    for one in (deployment.get("status") or {}).get("conditions") or ():
        if one["type"] == "ReplicaFailure" and one["status"] == "True":
            return f"{deployment['metadata']['name']}: {str(one.get('message'))[:_QUOTED]}"
    return None


def placed(facts: Facts) -> Iterator[Finding]:
    """Pods find nodes."""
    if isinstance(facts.pods, Unseen):
        yield unknown(facts.pods)
        return
    waiting = [pod for pod in map(records.pod, facts.pods) if not pod.scheduled]
    for pod in waiting:
        age = facts.now - pod.created_s
        text = f"{pod.name} waits {span(age)}: {pod.unschedulable or 'no scheduler took it yet'}"
        patient = age <= _USUAL.capacity_wait_s
        yield (warn if patient else fail)(
            text,
            "see NodePools' limits, zones and capacity types: kubectl get nodepools,nodeclaims",
        )
    if not waiting:
        yield ok(f"{len(facts.pods)} pods, each on a node")


def started(facts: Facts) -> Iterator[Finding]:
    """Images are pulled, containers start and do not die."""
    if isinstance(facts.pods, Unseen):
        yield unknown(facts.pods)
        return
    found = [one for pod in facts.pods for one in _troubles(pod, facts)]
    yield from found
    if not found:
        yield ok("no image is missing and no container dies")


def _troubles(body: Body, facts: Facts) -> Iterator[Finding]:
    pod = records.pod(body)
    if pod.terminating:
        return
    crashes = False
    for container in _containers(body):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), str(waiting.get("message") or "")[:_QUOTED]
        text = f"{pod.name} {container['name']}: {reason} {message}".rstrip()
        if reason in PULL_FAILURES:
            do = "see the variant's image, the registry, and its imagePullSecrets"
            yield fail(f"{text} ({container.get('image')})", do)
        elif reason == "CrashLoopBackOff":
            crashes = True
            yield fail(*_death(pod, container, facts))
        elif reason in START_FAILURES:
            yield fail(text, "see that every Secret and key that the pod names is there")
    if not crashes and pod.restarts and not pod.ready:
        hopeless = pod.restarts >= _USUAL.restarts
        container = next(iter(_containers(body)), {})
        yield (fail if hopeless else warn)(*_death(pod, container, facts))


def _death(pod: PodRecord, container: Body, facts: Facts) -> tuple[str, str]:
    """How a container died, and what to do."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    why = f"exit {ended['exitCode']} {ended.get('reason') or ''}".rstrip() if "exitCode" in ended \
        else "unknown"  # fmt: skip
    last = facts.last_words.get(pod.name) or ended.get("message")
    said = str(last).strip().splitlines()[-1][:_QUOTED] if last and str(last).strip() else None
    text = f"{pod.name} died {pod.restarts} times ({why})"
    do = f"kubectl logs -n {facts.namespace} {pod.name} --previous"
    if ended.get("reason") == "OOMKilled":
        do = "the node's memory is too small for the weights' load: a larger instance, or " + do
    return f"{text}, last words: {said or 'unknown'}", do


def booted(facts: Facts) -> Iterator[Finding]:
    """Boots end within what was learned, and canaries are answered."""
    if isinstance(facts.pods, Unseen):
        yield unknown(facts.pods)
        return
    limits = {one.name: one.boot_p99_seconds for one in facts.status.variants}
    found = []
    pods = [pod for pod in map(records.pod, facts.pods) if pod.scheduled and not pod.terminating]
    for pod in pods:
        if not pod.started:
            found += _slow(pod, limits.get(pod.variant), facts)
        elif not pod.ready:
            age = span(facts.now - pod.ready_changed_s)
            text = f"{pod.name} has not answered its canary for {age}{_probe(pod.name, facts)}"
            found.append(fail(text, f"kubectl logs -n {facts.namespace} {pod.name}"))
    yield from found
    if not found:
        ready = sum(pod.ready for pod in pods)
        yield ok(f"{ready} of {len(pods)} replicas answered their canary, the others in time")


def _slow(pod: PodRecord, p99_s: float | None, facts: Facts) -> list[Finding]:
    age = facts.now - pod.created_s
    do = f"kubectl logs -n {facts.namespace} {pod.name}: a compile that should have hit the cache?"
    if killed := _event(pod.name, "will be restarted", facts):
        return [fail(f"{pod.name}: its startup probe gave up: {killed}", do)]
    if p99_s is None or age <= p99_s:
        return []
    text = f"{pod.name} boots for {span(age)}, P99 is {span(p99_s)}{_probe(pod.name, facts)}"
    return [(warn if age <= _USUAL.slow_boots * p99_s else fail)(text, do)]


def _probe(pod: str, facts: Facts) -> str:
    said = _event(pod, "probe failed", facts)
    return f" ({said})" if said else ""


def _event(pod: str, part: str, facts: Facts) -> str | None:
    """The newest warning about a pod that holds `part`; None too where events are unknown."""
    if isinstance(facts.events, Unseen):
        return None
    mine = [
        one
        for one in facts.events
        if (one.get("involvedObject") or {}).get("name") == pod and part in one.get("message", "")
    ]
    newest = max(mine, key=lambda one: one.get("lastTimestamp") or "", default=None)
    return None if newest is None else " ".join(newest["message"].split())[:_QUOTED]


def _containers(pod: Body) -> list[Body]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
