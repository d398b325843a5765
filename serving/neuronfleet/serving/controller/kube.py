"""The few verbs that the controller uses on the API server, retried with jitter."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from neuronfleet.serving.controller.acts import (
    Act,
    Annotate,
    Apply,
    Cordon,
    Delete,
    DeletePod,
    Scale,
)
from neuronfleet.serving.controller.records import MANAGER

GROUP, VERSION, PLURAL = "neuronfleet.dev", "v1alpha1", "servingfleets"

_PATHS = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Service": ("/api/v1", "services"),
    "Pod": ("/api/v1", "pods"),
    "Node": ("/api/v1", "nodes"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "ServingFleet": (f"/apis/{GROUP}/{VERSION}", PLURAL),
    "Event": ("/api/v1", "events"),
}
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_TIMEOUT_S = 15.0
_AGAIN = (409, 429, 500, 502, 503, 504)
"""Conflicts and throttling too: every write of ours may be repeated as it is."""

Count = Callable[[str, str, int], None]
"""Told of each call: verb, kind, HTTP status (0: no answer)."""


class KubeError(Exception):
    """The API server refused, or did not answer after all attempts."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; 0 where there was no answer."""


class Kube:
    """Acts and reads over one API client."""

    def __init__(self, client: ApiClient, *, count: Count, rng: random.Random) -> None:
        self._client, self._count, self._rng = client, count, rng

    async def perform(self, namespace: str, act: Act) -> None:
        """Carry out one act. What is gone already is as good as deleted.

        Raises:
            KubeError: after the last attempt.
        """
        body: dict[str, Any]
        match act:
            case Apply(manifest=manifest, ours=ours):
                await self.apply(namespace, manifest, force=ours)
            case Scale(name=name, replicas=replicas):
                path = self._path(namespace, "Deployment", name)
                await self._write("PATCH", path, {"spec": {"replicas": replicas}}, "Deployment")
            case Annotate(pod=pod, annotations=annotations):
                body = {"metadata": {"annotations": dict(annotations)}}
                path = self._path(namespace, "Pod", pod)
                await self._write("PATCH", path, body, "Pod", missing_ok=True)
            case DeletePod(pod=pod, uid=uid):
                body = {"preconditions": {"uid": uid}}
                path = self._path(namespace, "Pod", pod)
                await self._write("DELETE", path, body, "Pod", missing_ok=True)
            case Cordon(node=node):
                body = {"spec": {"unschedulable": True}}
                path = f"{_PATHS['Node'][0]}/nodes/{quote(node)}"
                await self._write("PATCH", path, body, "Node", missing_ok=True)
            case Delete(kind=kind, name=name):
                body = {"propagationPolicy": "Background"}
                path = self._path(namespace, kind, name)
                await self._write("DELETE", path, body, kind, missing_ok=True)

    async def apply(
        self, namespace: str, manifest: Mapping[str, Any], *, force: bool = True
    ) -> None:
        """Server-side apply; with `force`, fields that others took are taken back."""
        kind = str(manifest["kind"])
        path = self._path(namespace, kind, str(manifest["metadata"]["name"]))
        query = {"fieldManager": MANAGER, "force": str(force).lower()}
        # Without force a conflict says that the object is somebody else's.
        final = () if force else (409,)
        await self._write("PATCH", path, manifest, kind, content=_APPLY, query=query, final=final)

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        """Set fields of a fleet's status; None takes one away."""
        path = self._path(namespace, "ServingFleet", name) + "/status"
        await self._write("PATCH", path, {"status": status}, "ServingFleet", missing_ok=True)

    async def post_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create an Event; its name says what it tells, so that it is told once."""
        path = self._path(namespace, "Event")
        try:
            await self._write("POST", path, event, "Event", final=(409,))
        except KubeError as error:
            if error.status != 409:
                raise

    async def knows_fleets(self) -> bool:
        """Whether the API server serves our kind yet."""
        try:
            await self._call("GET", f"/apis/{GROUP}/{VERSION}", None, "APIResourceList", query={})
        except KubeError:
            return False
        return True

    async def addresses(self, namespace: str, service: str) -> list[str]:
        """Addresses of a Service's pods that are there, ready or not."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(namespace)}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={service}"}
        text = await self._call("GET", path, None, "EndpointSlice", query=query)
        slices = json.loads(text)["items"] or ()
        ends = [end for one in slices for end in one.get("endpoints") or ()]
        return [end["addresses"][0] for end in ends if end.get("addresses")]

    async def uids(self, kind: str, selector: str, namespaces: Sequence[str]) -> set[str]:
        """The uids of all objects of a kind: what is not among them is gone."""
        base, plural = _PATHS[kind]
        within = () if kind == "Node" else namespaces
        homes = [f"{base}/namespaces/{quote(one)}" for one in within] or [base]
        found = [await self._uids(f"{home}/{plural}", kind, selector) for home in homes]
        return set().union(*found)

    async def _uids(self, path: str, kind: str, selector: str) -> set[str]:
        accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        query = {"labelSelector": selector} if selector else {}
        text = await self._call("GET", path, None, kind, accept=accept, query=query)
        return {item["metadata"]["uid"] for item in json.loads(text)["items"] or ()}

    def _path(self, namespace: str, kind: str, name: str | None = None) -> str:
        base, plural = _PATHS[kind]
        path = f"{base}/namespaces/{quote(namespace)}/{plural}"
        return path if name is None else f"{path}/{quote(name)}"

    async def _write(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any],
        kind: str,
        *,
        content: str = _MERGE,
        query: Mapping[str, str] | None = None,
        missing_ok: bool = False,
        final: tuple[int, ...] = (),
    ) -> None:
        query = {"fieldManager": MANAGER} if query is None and verb != "DELETE" else query
        content = content if verb == "PATCH" else "application/json"
        pause = _FIRST_PAUSE_S
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._call(verb, path, body, kind, content=content, query=query or {})
                return
            except KubeError as error:
                gone = error.status == 404 or (verb == "DELETE" and error.status == 409)
                if missing_ok and gone:
                    return
                again = error.status == 0 or error.status in _AGAIN
                again = again and error.status not in final
                if not again or attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _call(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None,
        kind: str,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str],
    ) -> str:
        status = 0
        try:
            prepared = await self._client.param_serialize(
                method=verb,
                resource_path=path,
                query_params=list(query.items()),
                header_params={"Content-Type": content, "Accept": accept},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(*prepared, _request_timeout=_TIMEOUT_S)
            text: str = await answer.response.text()
            status = answer.status
            if not 200 <= status <= 299:
                raise KubeError(f"{verb} {path}: {status} {_message(text)}", status)
            return text
        except ApiException as error:
            status = error.status or 0
            raise KubeError(f"{verb} {path}: {error.reason}", status) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise KubeError(f"{verb} {path}: no answer: {error!r}", 0) from error
        finally:
            self._count(verb, kind, status)


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))[:500]
    except ValueError:
        return text[:200]
