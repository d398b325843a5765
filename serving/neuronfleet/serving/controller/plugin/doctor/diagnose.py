"""All checks, in the order in which a person would make them."""

from collections.abc import Callable, Iterable

from neuronfleet.serving.controller.plugin.doctor import (
    installation,
    pods,
    surroundings,
    variants,
)
from neuronfleet.serving.controller.plugin.doctor.facts import Facts
from neuronfleet.serving.controller.plugin.doctor.findings import Finding

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("spec", installation.spec),
    ("crd", installation.schema),
    ("controller", installation.controller),
    ("gateway", installation.gateway),
    ("metrics", installation.metrics),
    ("variants", variants.serves),
    ("pins", variants.pinned),
    ("references", surroundings.references),
    ("deployments", pods.made),
    ("placed", pods.placed),
    ("started", pods.started),
    ("booted", pods.booted),
    ("capacity", variants.capacity),
    ("quotas", surroundings.quotas),
    ("budget", surroundings.budgets),
    ("policies", surroundings.policies),
    ("nodes", surroundings.nodes),
    ("rollout", variants.rolled),
)


def diagnose(facts: Facts) -> list[Finding]:
    """What every check finds; each says at least one thing."""
    return [one.of(name) for name, check in CHECKS for one in check(facts)]
