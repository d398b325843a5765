"""The cluster as the agent's feed: three kinds of watches, and facts made of what they hold."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kubernetes.aio.client import ApiClient

from neuronfleet.serving.controller.gateway.facts import (
    REPLICA_SELECTOR,
    SERVICE_LABEL,
    ClusterFacts,
    Object,
    fleet_fact,
    pod_facts,
    replica_facts,
)
from neuronfleet.serving.controller.gateway.settings import AgentSettings
from neuronfleet.serving.controller.gateway.watch import Watcher

_FLEETS = ("/apis/neuronfleet.dev/v1alpha1", "servingfleets")
_SLICES = ("/apis/discovery.k8s.io/v1", "endpointslices")

T = TypeVar("T")


class KubeFeed:
    """Facts of the cluster."""

    def __init__(self, client: ApiClient, settings: AgentSettings, rng: random.Random) -> None:
        self.changed = asyncio.Event()
        self._facts: ClusterFacts | None = None

        def watchers(
            kind: tuple[str, str],
            namespaces: Iterable[str],
            selector: str,
            parse: Callable[[Object], T],
        ) -> list[Watcher[T]]:
            return [
                Watcher(client, path, selector=selector, parse=parse, changed=self._change, rng=rng)
                for path in _paths(kind, namespaces)
            ]

        every, own = settings.namespaces, f"{SERVICE_LABEL}={settings.service}"
        self._fleets = watchers(_FLEETS, every, "", fleet_fact)
        self._replicas = watchers(_SLICES, every, REPLICA_SELECTOR, replica_facts)
        self._gateways = watchers(_SLICES, [settings.namespace], own, pod_facts)

    @property
    def synced(self) -> bool:
        """Whether everything was read once."""
        return all(watcher.synced for watcher in self._watchers())

    def facts(self) -> ClusterFacts:
        """All that is known now."""
        if self._facts is None:
            fleets = [fact for one in self._fleets for fact in one.facts.values()]
            slices = [facts for one in self._replicas for facts in one.facts.values()]
            own = [facts for one in self._gateways for facts in one.facts.values()]
            self._facts = ClusterFacts(
                fleets=tuple(fact for fact in fleets if fact is not None),
                replicas=tuple(fact for facts in slices for fact in facts),
                gateways=tuple(fact for facts in own for fact in facts),
            )
        return self._facts

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers():
                group.create_task(watcher.run())

    def _watchers(self) -> list[Watcher[Any]]:
        return [*self._fleets, *self._replicas, *self._gateways]

    def _change(self) -> None:
        self._facts = None
        self.changed.set()


def _paths(kind: tuple[str, str], namespaces: Iterable[str]) -> list[str]:
    base, plural = kind
    return [f"{base}/namespaces/{one}/{plural}" for one in namespaces] or [f"{base}/{plural}"]
