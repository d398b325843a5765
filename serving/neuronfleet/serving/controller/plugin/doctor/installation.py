"""Whether the parts that every fleet needs are there: spec, CRD, controller, gateway, metrics."""

from collections.abc import Iterator, Mapping
from typing import Any

from neuronfleet.serving.api import crd
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.plugin.doctor.findings import (
    Finding,
    Level,
    fail,
    ok,
    unknown,
    warn,
)
from neuronfleet.serving.controller.plugin.reader import Body, Items, Unseen
from neuronfleet.serving.controller.plugin.words import span
from neuronfleet.serving.controller.records import unix
from neuronfleet.serving.controller.view import MetricsState

_CLOCK_S = 2.0
"""The API server's clock is read by the second, and the answer took a moment."""
_FIRST_S = 60.0
"""Within this a new fleet may well wait for its first round."""
_METRICS_DO = {
    MetricsState.MISSING: (
        "see that Prometheus scrapes the gateway's pods (PodMonitor) and has the rules of "
        "monitoring/rules/fleet.yml"
    ),
    MetricsState.STALE: "see whether Prometheus still scrapes the gateway, and its rule delays",
    MetricsState.SOURCE_ERROR: "see the controller's prometheus.url, and that it may reach it",
}


def spec(facts: Facts) -> Iterator[Finding]:
    """The spec can be read."""
    if isinstance(facts.spec, SpecError):
        yield fail(str(facts.spec), f"kubectl edit sf {facts.name} -n {facts.namespace}")
        return
    bounds, count = facts.spec.bounds, len(facts.spec.variants)
    text = f"{bounds.min_replicas} to {bounds.max_replicas} replicas, {facts.spec.mode}"
    yield ok(f"readable: {count} variant{'s' if count > 1 else ''}, {text}")


def schema(facts: Facts) -> Iterator[Finding]:
    """The CRD is of this version."""
    if isinstance(facts.crd, Unseen):
        yield unknown(facts.crd)
        return
    served = {one["name"]: one for one in facts.crd["spec"]["versions"] if one.get("served")}
    if crd.VERSION not in served:
        do = "apply serving/crds/servingfleets.neuronfleet.dev.yaml of the controller's version"
        yield fail(f"the CRD serves {', '.join(served) or 'nothing'} and not {crd.VERSION}", do)
        return
    here = set(_paths(crd.object_schema()))
    there = set(_paths((served[crd.VERSION].get("schema") or {}).get("openAPIV3Schema") or {}))
    if lacking := sorted(here - there):
        shown = ", ".join(lacking[:4]) + (" and others" if len(lacking) > 4 else "")
        yield warn(
            f"the cluster's CRD is older than this plugin: it does not know {shown}",
            "helm upgrades no CRD: apply serving/crds/servingfleets.neuronfleet.dev.yaml",
        )
        return
    yield ok(f"{crd.VERSION} as this plugin knows it")


def _paths(part: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Fields of a structural schema, as `spec.variants.name`."""
    for name, inner in (part.get("properties") or {}).items():
        at = f"{path}.{name}" if path else name
        if at != "metadata":
            yield at
            yield from _paths(inner, at)
    if "items" in part:
        yield from _paths(part["items"], path)


def controller(facts: Facts) -> Iterator[Finding]:
    """A controller leads, and has seen the spec."""
    do = "kubectl get pods -A -l app.kubernetes.io/component=controller; see their logs"
    led = _led(facts.controller_leases, facts.now, "controller", do)
    yield led
    generation, seen = facts.fleet["metadata"].get("generation"), facts.status.observed_generation
    if seen is None:
        age = facts.now - (unix(facts.fleet["metadata"].get("creationTimestamp")) or 0.0)
        text = f"it has never written the status of this fleet, made {span(age)} ago"
        yield (warn if age < _FIRST_S else fail)(text, f"does it watch the namespace? {do}")
    elif generation is not None and seen < generation:
        text = f"its status answers generation {seen}, the spec is at {generation}"
        yield (warn if led.level is Level.OK else fail)(
            text, "ask again in a minute; then see its logs"
        )


def gateway(facts: Facts) -> Iterator[Finding]:
    """A gateway is active, and another stands by."""
    do = "kubectl get pods -A -l app.kubernetes.io/component=gateway; see their logs"
    yield _led(facts.gateway_leases, facts.now, "gateway", do)
    if isinstance(facts.gateway_leases, Unseen) or not facts.gateway_leases:
        return
    if isinstance(facts.gateway_pods, Unseen):
        yield unknown(facts.gateway_pods)
        return
    for lease in facts.gateway_leases:
        yield _pair(lease, facts.gateway_pods, do)


def _pair(lease: Body, pods: tuple[Body, ...], do: str) -> Finding:
    """The pods beside a Lease: its holder and those with the holder's labels."""
    namespace = lease["metadata"]["namespace"]
    holder = (lease.get("spec") or {}).get("holderIdentity")
    near = [one for one in pods if one["metadata"]["namespace"] == namespace]
    held = next((one for one in near if one["metadata"]["name"] == holder), None)
    if held is None:
        return fail(f"the Lease's holder {holder or 'nobody'} is no pod in {namespace}", do)
    group = _group(held)
    pair = [one for one in near if _group(one) == group and not _going(one)]
    ready = sum(_ready(one) for one in pair)
    text = f"{ready} of {len(pair)} pods in {namespace} are ready"
    if not _ready(held):
        return fail(f"{text}; the active one, {holder}, is not", do)
    return ok(text) if ready > 1 else warn(f"{text}: none stands by", do)


def _led(leases: Items, now: float, what: str, do: str) -> Finding:
    """Whether a Lease is held and was renewed in time."""
    if isinstance(leases, Unseen):
        return unknown(leases)
    if not leases:
        return fail(f"no Lease of a {what} in the cluster", f"install the chart, or: {do}")
    old = [text for one in leases if (text := _lapsed(one, now))]
    if len(old) == len(leases):
        return fail("; ".join(old), do)
    holders = [
        f"{one['spec']['holderIdentity']} in {one['metadata']['namespace']}"
        for one in leases
        if _lapsed(one, now) is None
    ]
    return ok(f"{', '.join(holders)} holds the Lease")


def _lapsed(lease: Body, now: float) -> str | None:
    """Why a Lease is nobody's; None while it is somebody's."""
    held = lease.get("spec") or {}
    if not held.get("holderIdentity"):
        return f"nobody holds the Lease in {lease['metadata']['namespace']}"
    age = now - (unix(held.get("renewTime")) or 0.0)
    lasts = float(held.get("leaseDurationSeconds") or 15)
    if age <= lasts + _CLOCK_S:
        return None
    return f"{held['holderIdentity']} last renewed its Lease {span(age)} ago; it lasts {lasts:g}s"


def metrics(facts: Facts) -> Iterator[Finding]:
    """The fleet's load is known."""
    one = facts.condition("MetricsAvailable")
    if one is None:
        yield warn("unknown: the controller has not said", "see the check `controller`")
    elif one.status == "True":
        yield ok(one.message or "found")
    else:
        known = {str(state): text for state, text in _METRICS_DO.items()}
        yield fail(
            f"{one.reason}: {one.message}; the fleet does not shrink",
            known.get(one.reason or "", "see the controller's logs"),
        )


def _group(pod: Body) -> tuple[str | None, ...]:
    labels = pod["metadata"].get("labels") or {}
    return tuple(
        labels.get(f"app.kubernetes.io/{key}") for key in ("name", "instance", "component")
    )


def _going(pod: Body) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def _ready(pod: Body) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
