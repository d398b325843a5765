"""A replica's server, faked: what it says is set by the test, what it is asked is kept."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from neuronfleet_replica.settings import Settings, parse
from tests.images.replica.helpers import RAW, FakeServer, changed


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that listens."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.looks += 1
            if fake.on_look is not None:
                fake.on_look(fake)
            self.reply(fake.metrics_status, fake.metrics().encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.questions.append(body)
            fake.asking += 1
            fake.most_asking = max(fake.most_asking, fake.asking)
            fake.gate.wait(10)
            fake.asking -= 1
            self.reply(fake.status, fake.answer.encode())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = False
    fake.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
    thread.start()
    yield fake
    fake.gate.set()
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a canary remembers, apart for each test."""
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(state))


@pytest.fixture
def settings(server: FakeServer) -> Callable[..., Settings]:
    """Settings of a replica whose server is the fake, changed by dotted paths."""

    def make(**changes: Any) -> Settings:
        return parse(changed(RAW | {"port": server.port}, **changes))

    return make
