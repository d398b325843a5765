"""Whether each variant can serve at all: walls, versions, capacity; and the rollout between two."""

from collections.abc import Iterator

from neuronfleet.serving.api import pins
from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller import records
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.plugin.doctor.findings import Finding, fail, ok, unknown, warn
from neuronfleet.serving.controller.plugin.reader import Unseen
from neuronfleet.serving.controller.rollout import ROLLED_BACK
from neuronfleet.serving.planner.walls import walls

_SHOWN = 3
"""Unknowns that are listed one by one."""


def serves(facts: Facts) -> Iterator[Finding]:
    """No wall stands before a variant."""
    if isinstance(facts.spec, SpecError):
        yield warn("unknown: the spec cannot be read", "see the check `spec`")
        return
    for variant in facts.spec.variants:
        found = walls(facts.spec, variant)
        for wall in found:
            yield fail(f"{variant.name}: {wall}", "change the variant: `neuronfleet plan` compares")
        if not found:
            yield ok(f"{variant.name}: nothing known keeps it from serving the model")
    if facts.spec.model.architecture is None:
        yield warn(
            "unknown: the model's architecture, hence its memory and families",
            "name it in spec.model.architecture",
        )


def pinned(facts: Facts) -> Iterator[Finding]:
    """SDK, driver and AMI run together."""
    if isinstance(facts.spec, SpecError):
        yield warn("unknown: the spec cannot be read", "see the check `spec`")
        return
    nodes = _nodes(facts)
    clashes = [str(one) for variant in facts.spec.variants for one in pins.check(variant, nodes)]
    for text in clashes:
        yield fail(text, "pin versions that run together, or change the nodes")
    unsure = [one for variant in facts.spec.variants for one in pins.unknowns(variant, nodes)]
    for text in unsure[:_SHOWN]:
        yield warn(f"unknown: {text}", "pin it, or label the nodes neuronfleet.dev/driver and /ami")
    if len(unsure) > _SHOWN:
        yield warn(f"{len(unsure) - _SHOWN} more unknowns of this kind", "mend those first")
    if isinstance(facts.nodes, Unseen):
        yield unknown(facts.nodes)
    elif not clashes and not unsure:
        yield ok("no pair is known to clash")


def _nodes(facts: Facts) -> list[pins.NodeFacts]:
    """Nodes that say anything of their versions, as the controller takes them."""
    seen = () if isinstance(facts.nodes, Unseen) else map(records.node, facts.nodes)
    return [
        pins.NodeFacts(
            name=node.name,
            sdk=node.sdk,
            driver=node.driver,
            ami=node.ami,
            instance_type=node.instance_type,
        )
        for node in seen
        if node.sdk or node.driver or node.ami
    ]


def capacity(facts: Facts) -> Iterator[Finding]:
    """There is capacity, and the bounds leave room."""
    found = facts.condition("CapacityAvailable")
    if found is None:
        yield warn("unknown: the controller has not said", "see the check `controller`")
    elif found.status == "True":
        yield ok(found.message or "available")
    else:
        do = "add a zone, a capacity type or a variant; raise the NodePool's limits"
        yield fail(f"{found.reason}: {found.message}", do)
    limited = facts.condition("ScalingLimited")
    if limited is not None and limited.status == "True":
        do = f"kubectl neuronfleet why {facts.name} -n {facts.namespace}"
        yield warn(f"{limited.reason}: {limited.message}", do)


def rolled(facts: Facts) -> Iterator[Finding]:
    """No rollout was given up."""
    one = facts.status.rollout
    if one is None:
        yield ok("none under way")
    elif one.state == ROLLED_BACK:
        yield fail(
            f"{one.variant}: revision {one.to} was rolled back: {one.reason}",
            "mend the spec: the next revision is tried; until then the old one serves",
        )
    else:
        yield ok(f"{one.variant}: {one.from_} to {one.to}, {one.state}: {one.reason}")
