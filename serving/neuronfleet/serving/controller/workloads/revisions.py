"""The revision of a variant: what its pods are made of, in eight digits."""

import hashlib
import json

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.controller.workloads.pod import pod_template
from neuronfleet.serving.controller.workloads.settings import WorkloadSettings


def revision(
    fleet: ServingFleet, variant: Variant, settings: WorkloadSettings, restarted_at: str | None
) -> str:
    """8 hex digits over the pod template, which holds no count, objective, traffic or scaling.

    Over the template itself and not over chosen fields: whatever would make Kubernetes replace
    pods is then a new revision, and so a rollout that is canary-checked. The one exception is the
    learned boot time; a Deployment keeps the one it was born with.

    Raises:
        SpecError: as `pod_template`.
    """
    template = pod_template(
        fleet, variant, settings=settings, revision="", boot_p99_s=0.0, restarted_at=restarted_at
    )
    text = json.dumps(template, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
