"""kopf's part: watches feed the store; one loop runs while this process holds the Lease."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import kopf

from neuronfleet.serving.controller.kube import GROUP, PLURAL, VERSION, Kube, KubeError
from neuronfleet.serving.controller.records import MANAGED_LABEL, MANAGER
from neuronfleet.serving.controller.store import Store

_log = logging.getLogger(__name__)
_OURS = {MANAGED_LABEL: MANAGER}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0
_CATCH_UP_S = 0.5
_RESYNC_S = 300.0
"""Between two looks for objects whose deletion a watch missed."""

_WATCHED: tuple[tuple[str, str, str, str, bool], ...] = (
    ("ServingFleet", GROUP, VERSION, PLURAL, False),
    ("Pod", "", "v1", "pods", True),
    ("Deployment", "apps", "v1", "deployments", True),
    ("Service", "", "v1", "services", True),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True),
    ("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", True),
    ("Node", "", "v1", "nodes", False),
)
"""Kind, group, version, plural, and whether only objects that carry our label matter."""


class Backoffs:
    """Pauses between tries, with jitter and without end.

    kopf's own list ends, and with it, where the API server is away for longer, the watch.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __iter__(self) -> Iterator[float]:
        pause = _FIRST_PAUSE_S
        while True:
            yield pause * self._rng.uniform(0.5, 1.5)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


class NoDiffs(kopf.DiffBaseStorage):
    """Compares nothing: plain events need no difference, and kopf's own copies every object for it.

    Of 10,000 pods those copies are two thirds of the time that a start takes.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing of an object."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Nothing is stored."""
        return None

    def store(self, **_: Any) -> None:
        """Store nothing."""


def registry(store: Store, rng: random.Random) -> kopf.OperatorRegistry:
    """Handlers that keep the store. Plain events: no finalizer, no annotation of kopf's."""
    made = kopf.OperatorRegistry()
    for kind, group, version, plural, ours in _WATCHED:
        labels = _OURS if ours else None
        kopf.on.event(group, version, plural, registry=made, id=f"see-{plural}", labels=labels)(
            _handler(store, kind)
        )
    made_settings(made, rng)
    return made


def _handler(store: Store, kind: str) -> Callable[..., Awaitable[None]]:
    async def see(event: kopf.RawEvent, **_: Any) -> None:
        store.see(kind, event["object"], gone=event["type"] == "DELETED")

    return see


def made_settings(made: kopf.OperatorRegistry, rng: random.Random) -> None:
    """Kopf's settings: quiet, and without what would need more rights."""

    @kopf.on.login(registry=made, id="login")
    def login(**told: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**told) or kopf.login_with_kubeconfig(**told)

    @kopf.on.startup(registry=made, id="settings")
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.persistence.diffbase_storage = NoDiffs()
        settings.scanning.disabled = True
        settings.peering.standalone = True
        # A watch that is cut silently is noticed by this, and begun again with a full list.
        settings.watching.server_timeout = 270
        settings.watching.client_timeout = 300
        settings.watching.connect_timeout = 5
        settings.networking.error_backoffs = Backoffs(rng)
        settings.queueing.idle_timeout = 1.0


async def caught_up(store: Store, kube: Kube, namespaces: Sequence[str]) -> None:
    """Return once the store knows everything that is there.

    Each kind is listed by itself: with the fleets there and their Deployments still to come, a
    fleet would seem to have no replica.
    """
    for kind, *_, ours in _WATCHED:
        while True:
            try:
                there = await kube.uids(kind, _selector(ours=ours), namespaces)
            except KubeError as error:
                _log.warning("waits for %s: %s", kind, error)
            else:
                if there <= store.uids(kind):
                    break
            await asyncio.sleep(_CATCH_UP_S)


async def resync(store: Store, kube: Kube, namespaces: Sequence[str]) -> None:
    """Again and again, forget what is gone without a word.

    A watch that was away for long starts from a list, and kopf tells nothing of what is not in it.
    """
    while True:
        await asyncio.sleep(_RESYNC_S)
        for kind, *_, ours in _WATCHED:
            # What is made meanwhile is on neither side.
            known = store.uids(kind)
            try:
                there = await kube.uids(kind, _selector(ours=ours), namespaces)
            except KubeError as error:
                _log.warning("resync of %s: %s", kind, error)
            else:
                store.forget(known - there)


def _selector(*, ours: bool) -> str:
    return f"{MANAGED_LABEL}={MANAGER}" if ours else ""
