"""The page's server: the document, the state as JSON, and a health answer, on loopback only."""

import errno
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from neuronfleet.serving.local.page.document import Document, read_document

_HOST = "127.0.0.1"
_LAST_PORT = 65_535
_PORTS_TRIED = 51
"""The port asked for and the 50 above it."""

State = Callable[[], dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServer:
    """A page being served."""

    port: int
    """Where it listens: the port asked for, or the next that was free."""
    runner: web.AppRunner

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{_HOST}:{self.port}/"

    async def close(self) -> None:
        """Stop listening and end open connections."""
        await self.runner.cleanup()


async def start_page(state: State, port: int) -> PageServer:
    """Serve the page and what `state` says, at `port` or the next free one; 0 picks any.

    `state` is called in the event loop at each poll and answers as docs/schemas/state.json says.
    """
    if not 0 <= port <= _LAST_PORT:
        raise ValueError(f"port = {port}, must be in [0, {_LAST_PORT}]")
    listener = _listen(port)
    runner = web.AppRunner(_app(state, read_document()), access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        await web.SockSite(runner, listener).start()
    except BaseException:
        await runner.cleanup()
        listener.close()
        raise
    return PageServer(port=listener.getsockname()[1], runner=runner)


def _app(state: State, document: Document) -> web.Application:
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": document.policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=document.html, content_type="text/html", headers=headers)

    async def state_now(_: web.Request) -> web.Response:
        # NaN is not JSON: better no answer, which the page shows, than one that it cannot read.
        text = json.dumps(state(), allow_nan=False, separators=(",", ":"))
        return web.Response(text=text, content_type="application/json", headers=headers)

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=headers)

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/api/state", state_now)
    app.router.add_get("/healthz", health)
    return app


def _listen(port: int) -> socket.socket:
    """A listening socket at the first free port."""
    last = min(port + _PORTS_TRIED - 1, _LAST_PORT) if port else 0
    for candidate in range(port, last + 1):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, candidate))
            listener.listen()
        except OSError as refused:
            listener.close()
            if refused.errno != errno.EADDRINUSE:
                raise
        else:
            return listener
    raise OSError(errno.EADDRINUSE, f"ports {port} to {last} on {_HOST} are all taken")
