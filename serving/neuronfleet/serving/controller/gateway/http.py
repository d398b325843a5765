"""The agent's own endpoint: claims for the other pod, metrics, and the pod's probes."""

import hashlib
import json
from typing import Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from neuronfleet.serving.controller.gateway.peers import told
from neuronfleet.serving.gateway.claims import Answer
from neuronfleet.serving.gateway.config import models_list


class Told(Protocol):
    """What can be asked of an agent."""

    def answer(self) -> Answer:
        """Claims of this pod."""
        ...

    def queued(self) -> dict[str, int]:
        """Requests that wait here, by fleet."""
        ...

    def models(self) -> list[str]:
        """Names that clients may ask for."""
        ...

    def problem(self) -> str | None:
        """Why the pod should be started anew; None is well."""
        ...

    def unready(self) -> str | None:
        """Why clients should ask another pod; None is ready."""
        ...

    async def metrics(self) -> str:
        """Prometheus text."""
        ...


async def serve(agent: Told, host: str, port: int) -> web.AppRunner:
    """Answer until the runner is cleaned up."""

    async def claims(request: web.Request) -> web.Response:
        document = told(agent.answer())
        # Not for the other pod, to which it is of no use and which would hear of each change.
        if "queued" in request.query:
            document["queued"] = agent.queued()
        body = json.dumps(document).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=body, content_type="application/json", headers={"ETag": tag})

    async def queues(request: web.Request) -> web.Response:
        return web.json_response(dict(agent.answer().queues))

    async def models(request: web.Request) -> web.Response:
        return web.Response(text=models_list(agent.models(), 0), content_type="application/json")

    async def metrics(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=(await agent.metrics()).encode(), headers=headers)

    async def healthz(request: web.Request) -> web.Response:
        return _probe(agent.problem())

    async def readyz(request: web.Request) -> web.Response:
        return _probe(agent.unready())

    app = web.Application()
    for path, handler in (
        ("/claims", claims),
        ("/queues", queues),
        ("/v1/models", models),
        ("/metrics", metrics),
        ("/healthz", healthz),
        ("/readyz", readyz),
    ):
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _probe(problem: str | None) -> web.Response:
    return web.Response(status=503 if problem else 200, text=problem or "ok")
