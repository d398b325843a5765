from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from neuronfleet.serving.local.page.document import read_document
from neuronfleet.serving.local.page.server import start_page

Rich = Callable[..., dict[str, Any]]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def taken_port() -> tuple[socket.socket, int]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, listener.getsockname()[1]


async def test_each_poll_gets_the_state_of_that_moment_and_keeps_none(
    session: aiohttp.ClientSession, rich: Rich
) -> None:
    state = rich()
    server = await start_page(lambda: state, 0)
    try:
        for elapsed in (1.0, 2.0):
            state["elapsed_s"] = elapsed
            async with session.get(f"{server.url}api/state") as answer:
                assert (await answer.json())["elapsed_s"] == elapsed
                assert answer.headers["Cache-Control"] == "no-store"
    finally:
        await server.close()


async def test_the_document_may_load_nothing_from_elsewhere(
    session: aiohttp.ClientSession, rich: Rich
) -> None:
    server = await start_page(rich, 0)
    try:
        async with session.get(server.url) as answer:
            html, policy = await answer.text(), answer.headers["Content-Security-Policy"]
    finally:
        await server.close()

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert " src=" not in html
    assert "<!-- s" not in html
    assert "url(" not in html


async def test_health_says_ok(session: aiohttp.ClientSession, rich: Rich) -> None:
    server = await start_page(rich, 0)
    try:
        async with session.get(f"{server.url}healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
    finally:
        await server.close()


async def test_a_state_with_a_number_that_json_has_not_is_an_error_and_no_document(
    session: aiohttp.ClientSession, rich: Rich
) -> None:
    state = rich()
    state["elapsed_s"] = float("nan")
    server = await start_page(lambda: state, 0)
    try:
        async with session.get(f"{server.url}api/state") as answer:
            assert answer.status == 500
    finally:
        await server.close()


async def test_a_taken_port_gives_way_to_the_next_free_one(rich: Rich) -> None:
    listener, port = taken_port()
    with listener:
        server = await start_page(rich, port)
        try:
            assert port < server.port <= port + 50
            assert server.url == f"http://127.0.0.1:{server.port}/"
        finally:
            await server.close()


async def test_a_closed_page_gives_its_port_back(rich: Rich) -> None:
    first = await start_page(rich, 0)
    await first.close()
    again = await start_page(rich, first.port)
    await again.close()

    assert again.port == first.port


async def test_a_port_that_is_none_is_named_with_its_range(rich: Rich) -> None:
    with pytest.raises(ValueError, match=r"port = 65536, must be in \[0, 65535\]"):
        await start_page(rich, 65_536)


def test_the_style_and_the_script_end_only_where_the_document_ends_them() -> None:
    html = read_document().html

    assert html.count("</style>") == html.count("<style>") == 1
    assert html.count("</script>") == html.count("<script") == 1
