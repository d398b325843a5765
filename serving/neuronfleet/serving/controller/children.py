"""The manifests of one fleet's objects, and what is known of those that exist."""

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from neuronfleet.serving.controller import workloads
from neuronfleet.serving.controller.judge import Judged
from neuronfleet.serving.controller.records import (
    APPLIED_ANNOTATION,
    DeploymentRecord,
    FleetRecord,
)
from neuronfleet.serving.controller.rollout import Split
from neuronfleet.serving.controller.workloads import Manifest, WorkloadSettings

_PROBE_STEP_S = 300.0
"""Startup probes are sized in steps, so that one more learned boot changes nothing."""
_MOST_KEPT = 64

Memo = dict[Hashable, list[Manifest]]
"""Manifests by all that they are made of: most rounds find everything as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Builds manifests, each with a digest of itself as an annotation."""

    settings: WorkloadSettings
    record: FleetRecord
    found: Mapping[tuple[str, str], str | None]
    """Digests of the Services, budgets and policies that exist, by kind and name."""
    memo: Memo

    def around(self, judged: Judged) -> list[Manifest]:
        """PodDisruptionBudget and NetworkPolicies."""
        fleet, total = judged.view.fleet, sum(judged.carried.values())
        return self._made(
            ("around", total),
            lambda: [
                *workloads.network_policies(fleet, **self._home(), settings=self.settings),
                workloads.disruption_budget(fleet, **self._home(), serving=total),
            ],
        )

    def services(self, judged: Judged) -> list[Manifest]:
        """A Service for each variant's revision that the spec describes."""
        ceilings = {one.name: one.ceiling for one in judged.view.staffing.variants}
        return self._made(
            ("services", tuple(ceilings.items())),
            lambda: [
                workloads.service(
                    judged.view.fleet,
                    variant,
                    **self._home(),
                    ceiling=ceilings[variant.name],
                    settings=self.settings,
                    restarted_at=self.record.restarted_at,
                )
                for variant in judged.view.fleet.variants
            ],
        )

    def deployment(self, judged: Judged, split: Split, found: DeploymentRecord | None) -> Manifest:
        """The Deployment of a revision that the spec describes."""
        variant = next(v for v in judged.view.fleet.variants if v.name == split.variant)
        boot = found.boot_p99_s if found is not None else None
        if boot is None:
            learned = judged.view.boots[variant.name].p99_s
            boot = ceil(learned / _PROBE_STEP_S) * _PROBE_STEP_S
        boot_s = boot
        slots = next(v.ceiling for v in judged.view.staffing.variants if v.name == split.variant)
        (manifest,) = self._made(
            ("deployment", variant.name, boot_s, slots),
            lambda: [
                workloads.deployment(
                    judged.view.fleet,
                    variant,
                    **self._home(),
                    replicas=None,
                    boot_p99_s=boot_s,
                    ceiling=slots,
                    settings=self.settings,
                    restarted_at=self.record.restarted_at,
                )
            ],
        )
        # Left out, the count would be taken from whoever set it and fall to 1.
        held = split.replicas if judged.acts or found is None else found.replicas
        return {**manifest, "spec": {"replicas": held, **manifest["spec"]}}

    def _made(
        self, what: tuple[Hashable, ...], make: Callable[[], list[Manifest]]
    ) -> list[Manifest]:
        key = (self.record.generation, self.record.restarted_at, *what)
        if key not in self.memo:
            if len(self.memo) >= _MOST_KEPT:
                self.memo.clear()
            self.memo[key] = [_stamped(one) for one in make()]
        return self.memo[key]

    def _home(self) -> dict[str, Any]:
        metadata = {"name": self.record.name, "uid": self.record.uid}
        owner = workloads.owner_reference({**self.record.body, "metadata": metadata})
        return {"namespace": self.record.namespace, "owner": owner}


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest that a built manifest carries."""
    return str(manifest["metadata"]["annotations"][APPLIED_ANNOTATION])


def _stamped(manifest: Manifest) -> Manifest:
    text = json.dumps(manifest, sort_keys=True)
    metadata = dict(manifest["metadata"])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata["annotations"] = {**metadata.get("annotations", {}), APPLIED_ANNOTATION: digest}
    return {**manifest, "metadata": metadata}
