"""Objects of one kind, listed once and then watched, through every loss of the API server."""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

log = logging.getLogger(__name__)

Object = Mapping[str, Any]

_PAGE = 500
_WATCH_S = 120
_LIST_TIMEOUT_S = 30.0
_SILENT_S = 150.0
"""A watch that sent nothing for so long, not even its end, hangs."""
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=_SILENT_S)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 4.0
_GONE = 410


T = TypeVar("T")


class Watcher(Generic[T]):
    """What the objects at one path of the API say, as they were last heard of."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        *,
        selector: str,
        parse: Callable[[Object], T],
        changed: Callable[[], None],
        rng: random.Random,
    ) -> None:
        """`parse` makes of an object what is kept; `changed` is told only where that changes."""
        self.facts: dict[str, T] = {}
        """By `<namespace>/<name>`."""
        self.synced = False
        """Whether they were listed once; they stay known while the API server is away."""
        self._client, self._path, self._selector, self._parse = client, path, selector, parse
        self._changed, self._rng = changed, rng

    async def run(self) -> None:
        """Follow until cancelled."""
        version, pause = "", _FIRST_PAUSE_S
        while True:
            try:
                if not version:
                    version = await self._list()
                    pause = _FIRST_PAUSE_S
                version = await self._watch(version)
                continue
            except ApiException as error:
                if error.status == _GONE:
                    version = ""
                    continue
                log.warning("%s: %s %s", self._path, error.status, error.reason)
                version = ""
            except (aiohttp.ClientError, OSError, ValueError) as error:
                log.warning("%s: %r", self._path, error)
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _list(self) -> str:
        found: dict[str, T] = {}
        going_on = ""
        while True:
            query = {"limit": str(_PAGE)} | ({"continue": going_on} if going_on else {})
            response = await self._get(query, _LIST_TIMEOUT_S)
            document = json.loads(await response.read())
            for item in document.get("items") or []:
                found[_name(item)] = self._parse(item)
            going_on = document["metadata"].get("continue") or ""
            if not going_on:
                break
        news = not self.synced or found != self.facts
        self.facts, self.synced = found, True
        if news:
            self._changed()
        return str(document["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        """Follow events from `version` until the server ends them; the last version heard."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(_WATCH_S * self._rng.uniform(0.5, 1.0))),
        }
        response = await self._get(query, _WATCH_TIMEOUT)
        try:
            while line := await response.content.readline():
                event = json.loads(line)
                item = event["object"]
                if event["type"] == "ERROR":
                    raise ApiException(status=item.get("code"), reason=item.get("message"))
                version = item["metadata"]["resourceVersion"]
                self._take(event["type"], item)
        finally:
            response.close()
        return version

    def _take(self, kind: str, item: Object) -> None:
        if kind == "BOOKMARK":
            return
        name = _name(item)
        before = self.facts.get(name)
        if kind == "DELETED":
            self.facts.pop(name, None)
        else:
            self.facts[name] = self._parse(item)
        if self.facts.get(name) != before:
            self._changed()

    async def _get(
        self, query: Mapping[str, str], timeout: float | aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        pairs = list(query.items())
        if self._selector:
            pairs.append(("labelSelector", self._selector))
        prepared = await self._client.param_serialize(
            method="GET",
            resource_path=self._path,
            query_params=pairs,
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(*prepared, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        if response.status != 200:
            text = (await response.text())[:200]
            raise ApiException(status=response.status, reason=text)
        return response


def _name(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
