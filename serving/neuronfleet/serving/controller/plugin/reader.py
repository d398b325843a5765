"""Reads of the API server, each allowed to fail by itself: what was not seen says why."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.exceptions import ApiException

from neuronfleet.serving.controller.kube import KubeError

_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_TIMEOUT_S = 15.0
_SAID = {401: "not authenticated", 403: "not allowed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """What could not be read: it is unknown, not absent."""

    why: str

    def __str__(self) -> str:
        return f"unknown: {self.why}"


Body = Mapping[str, Any]
Items = tuple[Body, ...] | Unseen


class Reader:
    """GET and nothing else."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._server_s: float | None = None

    @property
    def now(self) -> float:
        """Unix seconds by the API server's clock: that of this machine may be wrong."""
        return time() if self._server_s is None else self._server_s

    async def get(self, path: str, **query: str) -> Body:
        """One object, or a list with `items`.

        Raises:
            KubeError: refused (its HTTP status) or not answered (0).
        """
        found: Body = json.loads(await self.text(path, **query))
        return found

    async def look(self, path: str, **query: str) -> Items:
        """The items of a list."""
        try:
            found = await self.get(path, **query)
        except KubeError as error:
            return Unseen(why=f"{_SAID.get(error.status, error)} to list {path.split('/')[-1]}")
        return tuple(found.get("items") or ())

    async def exists(self, path: str) -> bool | Unseen:
        """Whether an object is there; its metadata alone travels, so a Secret stays secret."""
        try:
            await self.text(path, accept=_METADATA)
        except KubeError as error:
            if error.status == 404:
                return False
            return Unseen(why=f"{_SAID.get(error.status, error)} to get {path.split('/')[-2]}")
        return True

    async def text(self, path: str, accept: str = "application/json", **query: str) -> str:
        """An answer as it came; see `get`."""
        try:
            prepared = await self._client.param_serialize(
                method="GET",
                resource_path=path,
                query_params=list(query.items()),
                header_params={"Accept": accept},
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(*prepared, _request_timeout=_TIMEOUT_S)
            text: str = await answer.response.text()
        except ApiException as error:
            raise KubeError(f"GET {path}: {error.reason}", error.status or 0) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            host = self._client.configuration.host
            raise KubeError(f"the API server {host} does not answer: {error!r}", 0) from error
        if date := answer.response.headers.get("Date"):
            self._server_s = parsedate_to_datetime(date).timestamp()
        if answer.status != 200:
            raise KubeError(f"GET {path}: {answer.status} {_message(text)}", answer.status)
        return text


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))[:500]
    except (ValueError, AttributeError):
        return text[:200].strip()
