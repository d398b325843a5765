"""A fake server on a free loopback port."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.serving.bench.fakes import Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    fake = Server()
    app = web.Application()
    app.router.add_post("/v1/completions", fake.serve)
    app.router.add_post("/v1/chat/completions", fake.serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield fake
    await runner.cleanup()
