import base64
import datetime as dt
import ipaddress
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib import error, parse

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from neuronfleet.infra.functions import end_notice
from tests.infra.functions.events import END, notice

ROOT = Path(__file__).parents[3]
BLOCK = "cr-0123456789abcdef0"
OTHER = "cr-00000000000000001"
GONE = "2027-03-04T10:45:00Z"
PATH = "/apis/neuronfleet.dev/v1alpha1/namespaces/models/servingfleets/chat"


def certificate() -> tuple[bytes, bytes]:
    """A key and a certificate of its own for 127.0.0.1, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, built.public_bytes(serialization.Encoding.PEM)


class ApiServer:
    """An API server that knows JSON patches with `test` and `add` on spec.variants."""

    def __init__(self) -> None:
        self.fleets: dict[str, Any] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.refused: set[str] = set()
        self.before_patch: Callable[[], None] = lambda: None

    def patch(self, path: str, operations: list[dict[str, Any]]) -> int:
        self.before_patch()
        if path in self.refused:
            return 403
        changed = deepcopy(self.fleets[path])
        for operation in operations:
            *way, last = operation["path"].strip("/").split("/")
            at: Any = changed
            for step in way:
                at = at[int(step)] if isinstance(at, list) else at[step]
            if operation["op"] == "test" and at.get(last) != operation["value"]:
                return 422
            if operation["op"] == "add":
                at[last] = operation["value"]
        self.fleets[path] = changed
        return 200

    def handler(self) -> type[BaseHTTPRequestHandler]:
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200)

            def do_PATCH(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                path = parse.urlsplit(self.path).path
                self._answer(world.patch(path, json.loads(body)) if path in world.fleets else 404)

            def _answer(self, status: int) -> None:
                world.asked.append((self.command, self.path, dict(self.headers)))
                found = world.fleets.get(parse.urlsplit(self.path).path)
                body = json.dumps(found or {"kind": "Status"}).encode()
                self.send_response(status if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    private, public = certificate()
    (tmp_path / "key.pem").write_bytes(private)
    (tmp_path / "cert.pem").write_bytes(public)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    world = ApiServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), world.handler())
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings = {
        "AUTHORITY": base64.b64encode(public).decode(),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_REGION": "us-east-2",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "CLUSTER": "full",
        "ENDPOINT": f"https://127.0.0.1:{server.server_port}",
        "FLEETS": "models/chat",
        "LEAD_MINUTES": "45",
        "RESERVATION": BLOCK,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield world
    server.shutdown()
    thread.join()
    server.server_close()


def fleet(*reservations: dict[str, str] | None) -> dict[str, Any]:
    variants = [
        {"name": f"v{index}"} | ({"reservation": held} if held else {})
        for index, held in enumerate(reservations)
    ]
    return {"metadata": {"name": "chat"}, "spec": {"variants": variants}}


def ends(world: ApiServer, path: str = PATH) -> list[str | None]:
    variants = world.fleets[path]["spec"]["variants"]
    return [variant.get("reservation", {}).get("endsAt") for variant in variants]


def methods(world: ApiServer) -> list[str]:
    return [method for method, _, _ in world.asked]


def test_variants_of_the_reservation_get_the_time_at_which_the_pool_is_scaled_to_zero(
    api: ApiServer,
) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK}, None, {"id": OTHER}, {"id": BLOCK, "endsAt": END})

    assert end_notice.handler(notice(BLOCK), None) == {"models/chat": 2}
    assert ends(api) == [GONE, None, None, GONE]


def test_a_second_notice_changes_nothing(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK})
    end_notice.handler(notice(BLOCK), None)
    api.asked.clear()

    assert end_notice.handler(notice(BLOCK), None) == {"models/chat": 0}
    assert methods(api) == ["GET"]


def test_the_same_moment_written_otherwise_is_left_alone(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK, "endsAt": "2027-03-04T11:45:00+01:00"})

    assert end_notice.handler(notice(BLOCK), None) == {"models/chat": 0}


def test_a_notice_of_another_reservation_asks_the_cluster_nothing(api: ApiServer) -> None:
    assert end_notice.handler(notice(OTHER), None) == {"ignored": OTHER}
    assert end_notice.handler({"detail": None}, None) == {"ignored": None}
    assert api.asked == []


def test_a_change_in_between_is_kept_and_the_fleet_read_again(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK}, {"id": BLOCK})

    def interfere() -> None:
        api.before_patch = lambda: None
        api.fleets[PATH]["spec"]["variants"][0]["reservation"] = {"id": OTHER}

    api.before_patch = interfere

    assert end_notice.handler(notice(BLOCK), None) == {"models/chat": 1}
    assert api.fleets[PATH]["spec"]["variants"][0]["reservation"] == {"id": OTHER}
    assert ends(api) == [None, GONE]


def test_a_fleet_that_never_stands_still_is_an_error(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK})
    turns = iter(range(10))

    def interfere() -> None:
        held = {"id": BLOCK, "endsAt": f"2027-01-0{next(turns) + 1}T00:00:00Z"}
        api.fleets[PATH]["spec"]["variants"][0]["reservation"] = held

    api.before_patch = interfere

    with pytest.raises(RuntimeError, match=r"not told: models/chat \(HTTP 422\)"):
        end_notice.handler(notice(BLOCK), None)
    assert methods(api) == ["GET", "PATCH"] * 3


def test_a_fleet_that_is_gone_does_not_keep_the_others_from_being_told(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETS", "models/gone,models/chat")
    api.fleets[PATH] = fleet({"id": BLOCK})

    assert end_notice.handler(notice(BLOCK), None) == {"models/gone": 0, "models/chat": 1}


def test_a_fleet_that_is_refused_does_not_either_and_is_named(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETS", "models/shut,models/chat")
    shut = PATH.replace("chat", "shut")
    api.fleets |= {shut: fleet({"id": BLOCK}), PATH: fleet({"id": BLOCK})}
    api.refused.add(shut)

    with pytest.raises(RuntimeError, match=r"not told: models/shut \(HTTP 403\)$"):
        end_notice.handler(notice(BLOCK), None)
    assert ends(api) == [GONE]


def test_an_end_that_is_no_time_is_an_error_and_not_a_guess(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK})

    with pytest.raises(ValueError, match="soon"):
        end_notice.handler(notice(BLOCK, end="soon"), None)
    assert ends(api) == [None]


def test_an_endpoint_of_another_authority_is_not_spoken_to(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stranger = certificate()
    monkeypatch.setenv("AUTHORITY", base64.b64encode(stranger).decode())
    api.fleets[PATH] = fleet({"id": BLOCK})

    with pytest.raises(error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        end_notice.handler(notice(BLOCK), None)
    assert api.asked == []


def test_the_patch_says_what_it_is_and_who_writes(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK})
    end_notice.handler(notice(BLOCK), None)

    method, path, headers = api.asked[-1]
    assert (method, path) == ("PATCH", f"{PATH}?fieldManager=neuronfleet-end-notice")
    assert headers["Content-Type"] == "application/json-patch+json"


def test_the_token_is_a_presigned_call_of_this_cluster_for_a_minute(api: ApiServer) -> None:
    api.fleets[PATH] = fleet({"id": BLOCK})
    end_notice.handler(notice(BLOCK), None)

    bearer = api.asked[0][2]["Authorization"].removeprefix("Bearer k8s-aws-v1.")
    url = parse.urlsplit(base64.urlsafe_b64decode(bearer + "=" * (-len(bearer) % 4)).decode())
    query = dict(parse.parse_qsl(url.query))
    assert url.netloc == "sts.us-east-2.amazonaws.com"
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert query["X-Amz-Expires"] == "60"
    assert not bearer.endswith("=")


def test_the_time_that_is_written_is_one_that_a_fleet_takes() -> None:
    crd = yaml.safe_load((ROOT / "serving/crds/servingfleets.neuronfleet.dev.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    reservation = spec["variants"]["items"]["properties"]["reservation"]["properties"]
    end = end_notice.moment("2027-03-04T11:45:00.5+01:00")

    _, added = end_notice.changes(fleet({"id": BLOCK}), BLOCK, end)
    assert added["value"] == "2027-03-04T10:45:00Z"
    assert re.fullmatch(reservation["endsAt"]["pattern"], added["value"])
    assert f"/apis/{crd['spec']['group']}/{version['name']}/" in PATH
