"""An API server and a Prometheus of fixed answers, on a port of this machine, in a thread."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from tests.serving.controller.plugin.objects import NOW


@dataclass(slots=True, kw_only=True)
class FakeServer:
    """What it answers, by path; a number is an HTTP status, a text is sent as it is."""

    answers: dict[str, Any] = field(default_factory=dict)
    series: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Results of Prometheus by a part of the query."""
    asked: list[tuple[str, Mapping[str, str], str]] = field(default_factory=list)
    """Path, query and Accept header of each call."""
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one call."""
        self.asked.append((request.path, dict(request.query), request.headers.get("Accept", "")))
        if request.path == "/api/v1/query":
            query = str((await request.post())["query"])
            found = next((v for part, v in self.series.items() if part in query), None)
            if found is None:
                return web.Response(status=422, text="no such query")
            return web.json_response({"data": {"result": found}})
        headers = {"Date": format_datetime(datetime.fromtimestamp(NOW, UTC), usegmt=True)}
        found = self.answers.get(request.path, 404)
        if isinstance(found, int):
            name = request.path.rpartition("/")[2]
            kind = "servingfleets.neuronfleet.dev" if "servingfleets/" in request.path else "x"
            message = {404: f'{kind} "{name}" not found', 403: "User cannot do that"}.get(found)
            body = {"kind": "Status", "message": message or "it broke", "code": found}
            return web.json_response(body, status=found, headers=headers)
        if isinstance(found, str):
            return web.Response(text=found, headers=headers)
        return web.json_response(found, headers=headers)

    def kubeconfig(self, folder: Path, namespace: str | None = "serving") -> Path:
        """A file that leads here, with the contexts `here` and `other`."""
        here = {"cluster": "fake", "user": "me"} | ({"namespace": namespace} if namespace else {})
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [
                {"name": "here", "context": here},
                {"name": "other", "context": here | {"namespace": "elsewhere"}},
            ],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def serving() -> Iterator[FakeServer]:
    """A fake server that runs until the end."""
    fake, started, stop = FakeServer(), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", fake.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    try:
        yield fake
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)
