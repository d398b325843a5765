"""As much of an API server as the gateway needs: lists, watches and Leases, over plain HTTP."""

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from aiohttp import web

Object = dict[str, Any]


def free_port() -> int:
    """A port that is free on all loopback addresses."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        port: int = probe.getsockname()[1]
        return port


class FakeApi:
    """Objects by path; every change has a version, and watches hear of it."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Object]] = {}
        self.events: list[tuple[int, str, str, Object]] = []
        self.changed = asyncio.Condition()
        self.port = 0
        self.down = False
        self.blocked = ""
        """Writes that name this one as the holder of a Lease do not arrive."""
        self.oldest = 0
        """Watches from before this version are answered with 410."""
        self.requests: list[str] = []
        self._connections: list[web.Request] = []
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> None:
        self.port = port
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def go_down(self) -> None:
        """Cut every connection and answer nobody."""
        self.down = True
        for request in list(self._connections):
            if request.transport is not None:
                request.transport.abort()

    async def put(self, path: str, item: Object) -> Object:
        """Create or change an object of a collection's path."""
        name = item["metadata"]["name"]
        known = self.objects.setdefault(path, {})
        self.version += 1
        item["metadata"] |= {"resourceVersion": str(self.version), "namespace": _namespace(path)}
        kind = "MODIFIED" if name in known else "ADDED"
        known[name] = item
        await self._tell(kind, path, item)
        return item

    async def delete(self, path: str, name: str) -> None:
        self.version += 1
        item = self.objects[path].pop(name)
        item["metadata"]["resourceVersion"] = str(self.version)
        await self._tell("DELETED", path, item)

    async def _tell(self, kind: str, path: str, item: Object) -> None:
        async with self.changed:
            self.events.append((self.version, kind, path, json.loads(json.dumps(item))))
            self.changed.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self._connections.append(request)
        try:
            if self.down:
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=503)
            self.requests.append(f"{request.method} {request.path}")
            if "watch" in request.query:
                return await self._watch(request)
            return await self._call(request)
        finally:
            self._connections.remove(request)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        path, _, name = request.path.rpartition("/")
        if request.method == "POST":
            if (await request.json())["metadata"]["name"] in self.objects.get(request.path, {}):
                return _status(409)
            return web.json_response(await self.put(request.path, await request.json()), status=201)
        if name in self.objects.get(path, {}):
            item = self.objects[path][name]
            if request.method == "PUT":
                body = await request.json()
                if self.blocked and body["spec"].get("holderIdentity") == self.blocked:
                    await asyncio.sleep(5.0)
                    return _status(504)
                if body["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                    return _status(409)
                item = await self.put(path, body)
            return web.json_response(item)
        if "leases" in path:
            return _status(404)
        items = [item for item in self._under(request.path) if _matches(item, request)]
        listed = {"metadata": {"resourceVersion": str(self.version)}, "items": items}
        return web.json_response(listed)

    def _under(self, path: str) -> list[Object]:
        return [
            item
            for at, items in self.objects.items()
            if _is_in(at, path)
            for item in items.values()
        ]

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if seen < self.oldest:
            gone = {"code": 410, "message": "too old resource version", "reason": "Expired"}
            await _event(response, "ERROR", gone)
            return response
        while True:
            for version, kind, path, item in list(self.events):
                if version > seen and _is_in(path, request.path) and _matches(item, request):
                    await _event(response, kind, item)
            seen = self.version
            async with self.changed:
                await self.changed.wait()


async def _event(response: web.StreamResponse, kind: str, item: Mapping[str, Any]) -> None:
    await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")


def _status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "code": code}, status=code)


def _namespace(path: str) -> str:
    return path.split("/namespaces/")[1].split("/")[0]


def _is_in(path: str, wanted: str) -> bool:
    """Whether a namespaced collection belongs to a path with or without a namespace."""
    if path == wanted:
        return True
    base, _, rest = path.partition("/namespaces/")
    return "/namespaces/" not in wanted and f"{base}/{rest.split('/', 1)[1]}" == wanted


def _matches(item: Object, request: web.Request) -> bool:
    labels = item["metadata"].get("labels") or {}
    wanted = request.query.get("labelSelector", "")
    return all(
        labels.get(key) == value
        for key, _, value in (part.partition("=") for part in wanted.split(",") if part)
    )
