"""API keys and certificate from files, renewed while streams go on."""

import asyncio
import hashlib
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.gateway.secrets import read_certificate

if TYPE_CHECKING:
    from tests.serving.controller.gateway.conftest import Cluster

HOST = "127.0.0.1"


def make_certificate(directory: Path, name: str) -> None:
    """A self-signed `tls.crt` and `tls.key`, as in a Secret."""
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{HOST}"]
    files = ["-keyout", str(directory / "tls.key"), "-out", str(directory / "tls.crt")]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, *files], check=True, capture_output=True
    )


def line(key: str, traffic: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()} {traffic} someone\n"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def start(cluster: "Cluster") -> None:
    cluster.add_fleet("ns.llama", "m1")
    await cluster.add_replica("ns.llama", "r0", 2)
    cluster.give_lease("gw-a")
    await cluster.start("gw-a")


@pytest.mark.peer
async def test_a_renewed_certificate_is_used_without_breaking_a_stream(
    cluster: "Cluster", tmp_path: Path
) -> None:
    make_certificate(tmp_path, "first")
    cluster.settings |= {
        "tls_port": cluster.settings["port"] + 1,
        "tls_certificate": tmp_path / "tls.crt",
        "tls_key": tmp_path / "tls.key",
    }
    await start(cluster)
    await cluster.until_serves("gw-a", "m1")
    url = f"https://{HOST}:{cluster.settings['tls_port']}/v1/completions"

    async def ask(events: int = 1) -> str:
        trust = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
        body = {"model": "m1", "events": events, "seconds": 0.1}
        async with cluster.session.post(url, json=body, ssl=trust) as response:
            return await response.text()

    stream = asyncio.create_task(ask(events=40))
    await cluster.until(lambda: cluster.replicas["r0"].now == 1)

    make_certificate(tmp_path, "second")

    async def renewed() -> bool:
        try:
            return "[DONE]" in await ask()
        except aiohttp.ClientConnectorCertificateError:
            return False

    await cluster.until(renewed)
    assert "[DONE]" in await stream


@pytest.mark.peer
async def test_keys_are_asked_for_at_router_and_queue_and_follow_their_file(
    cluster: "Cluster", tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(line("old", "interactive"))
    cluster.settings["keys_file"] = keys
    await start(cluster)

    async def serves(key: str) -> bool:
        return (await cluster.ask("gw-a", "m1", headers=bearer(key)))[0] == 200

    async def listens() -> bool:
        try:
            return await serves("old")
        except aiohttp.ClientError:
            return False

    await cluster.until(listens)
    queue = cluster.agents["gw-a"].queues.current["ns.llama"].settings.port
    by_queue = f"http://{HOST}:{queue}/v1/completions"
    assert (await cluster.ask("gw-a", "m1"))[0] == 401
    assert (await cluster.get("gw-a", "/v1/models", cluster.settings["port"]))[0] == 401
    async with cluster.session.post(by_queue, json={"model": "m1"}) as response:
        assert response.status == 401

    keys.write_text(line("new", "batch"))
    await cluster.until(lambda: serves("new"))
    assert not await serves("old")

    keys.write_text("nonsense")
    await asyncio.sleep(2.5)
    assert await serves("new"), "a file that will not do changes nothing"
    _, text = await cluster.get("gw-a", "/metrics")
    assert 'neuronfleet_gateway_failures_total{what="file"}' in text


def test_a_key_of_another_certificate_is_refused_before_haproxy_sees_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    make_certificate(tmp_path / "a", "a")
    make_certificate(tmp_path / "b", "b")

    assert "PRIVATE KEY" in read_certificate(tmp_path / "a/tls.crt", tmp_path / "a/tls.key")
    with pytest.raises(SpecError, match="must be a PEM pair"):
        read_certificate(tmp_path / "a/tls.crt", tmp_path / "b/tls.key")
    with pytest.raises(SpecError, match="must be readable PEM files"):
        read_certificate(tmp_path / "a/tls.crt", tmp_path / "c/tls.key")
