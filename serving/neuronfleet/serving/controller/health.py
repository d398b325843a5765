"""/metrics and /healthz of the controller."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from neuronfleet.serving.controller.exporter import Exporter


async def serve(
    exporter: Exporter, *, host: str, port: int, problem: Callable[[], str | None]
) -> web.AppRunner:
    """Answer until the runner is cleaned up; `problem` says what ails the process, if anything."""

    async def metrics(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(exporter.registry), headers=headers)

    async def healthz(request: web.Request) -> web.Response:
        found = problem()
        return web.Response(status=503 if found else 200, text=found or "ok")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
