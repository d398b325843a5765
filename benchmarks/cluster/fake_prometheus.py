"""A Prometheus that answers the controller's one query with loads that the benchmark sets."""

import json
import time
from collections.abc import Callable

from aiohttp import web


def nothing() -> None:
    """What happens at a query outside a measurement."""


class FakePrometheus:
    """Fresh samples at every query; the time of the last answer is kept."""

    def __init__(self) -> None:
        self.loads: dict[str, float] = {}
        """Sequences in flight and queued, by fleet key."""
        self.pods: dict[str, list[str]] = {}
        """Pods that serve, by fleet key."""
        self.answered_s = 0.0
        self.queries = 0
        self.on_query: Callable[[], None] = nothing
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Answer on a free port of loopback, which is returned."""
        app = web.Application()
        app.router.add_post("/api/v1/query", self._query)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port: int = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return port

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _query(self, request: web.Request) -> web.Response:
        self.on_query()
        now = time.time()
        found = []
        for key, load in self.loads.items():
            pods = self.pods.get(key, [])
            each = load / len(pods) if pods else 0.0
            for name, value in (
                ("fleet:scraped:timestamp", now),
                ("fleet:queued:sum", 0.0 if pods else load),
                ("fleet:refused:rate", 0.0),
                ("fleet:arrivals:rate", load / 60),
                ("fleet:prompt_tokens:mean", 200.0),
                ("fleet:output_tokens:mean", 60.0),
                ("fleet:request_seconds:mean", 6.0),
            ):
                metric = {"__name__": name, "fleet": key}
                found.append({"metric": metric, "value": [now, str(value)]})
            for pod in pods:
                metric = {
                    "__name__": "haproxy_server_current_sessions",
                    "proxy": key,
                    "server": pod,
                }
                found.append({"metric": metric, "value": [now, str(each)]})
        text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}})
        response = web.Response(text=text, content_type="application/json")
        # The sample counts as received when the answer has gone out.
        await response.prepare(request)
        await response.write_eof()
        self.answered_s = time.time()
        self.queries += 1
        return response
