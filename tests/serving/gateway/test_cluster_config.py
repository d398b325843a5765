"""Router and queue of a cluster: what HAProxy accepts, and what must be in it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.queue_config import QueueSettings, queue_files, render_queue
from neuronfleet.serving.gateway.router_config import (
    RouterSettings,
    render_router,
    router_files,
)
from neuronfleet.serving.gateway.settings import GatewayFleet

FLEET = GatewayFleet(name="ml.llama", models=("m1",), queue_seconds=30.0)


def queue(**changes: Any) -> QueueSettings:
    given: dict[str, Any] = {"fleet": FLEET, "bind_host": "10.0.0.1", "port": 20000}
    return QueueSettings(**given | changes)


def router(**changes: Any) -> RouterSettings:
    given: dict[str, Any] = {
        "bind_host": "0.0.0.0",
        "port": 8080,
        "agent_host": "127.0.0.1",
        "agent_port": 8090,
        "most_fleets": 3,
        "connect_seconds": 0.25,
    }
    return RouterSettings(**given | changes)


def accepts(directory: Path, texts: dict[str, str]) -> tuple[int, str]:
    for name, text in (texts | {"keys.map": ""}).items():
        (directory / name).write_text(text)
    check = subprocess.run(
        ["/usr/sbin/haproxy", "-c", "-f", "haproxy.cfg"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    return check.returncode, check.stderr


@pytest.mark.peer
@pytest.mark.parametrize("authenticated", [True, False])
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_haproxy_accepts_both(tmp_path: Path, authenticated: bool, host: str) -> None:
    for texts in (
        queue_files(queue(authenticated=authenticated, bind_host=host)),
        router_files(router(authenticated=authenticated, bind_host=host)),
    ):
        assert accepts(tmp_path, texts) == (0, "")


def test_a_request_looks_for_its_queue_for_as_long_as_a_takeover_may_last() -> None:
    lines = [line.strip() for line in render_router(router(takeover_seconds=30.0)).splitlines()]

    assert "retries 120" in lines
    assert "option redispatch 1" in lines, "or a retry would not read the new address"
    assert "timeout connect 250ms" in lines


def test_the_router_passes_the_key_on_to_the_queue_and_the_queue_hides_it_from_replicas() -> None:
    in_router = render_router(router(authenticated=True))
    frontend = in_router[in_router.index("frontend _public") : in_router.index("frontend _metrics")]

    assert "del-header authorization" not in frontend
    assert "del-header authorization" in render_queue(queue(authenticated=True))


def test_proxies_that_are_no_fleet_begin_with_an_underscore() -> None:
    for text in (render_queue(queue()), render_router(router())):
        words = [line.split() for line in text.splitlines() if line and line[0] != " "]
        names = [word[1] for word in words if word[0] in ("frontend", "backend")]
        assert [name for name in names if not name.startswith("_")] in ([], ["ml.llama"])


def test_settings_out_of_range_are_refused_with_the_range() -> None:
    with pytest.raises(SpecError, match=r"port = 0, must be in \[1, 65535\]"):
        queue(port=0)
    with pytest.raises(SpecError, match="tls_port = 8080, must be another port than `port`"):
        router(tls_port=8080)
    with pytest.raises(SpecError, match=r"most_fleets = 0, must be in \[1, 10000\]"):
        router(most_fleets=0)
