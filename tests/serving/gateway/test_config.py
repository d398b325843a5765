import subprocess
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.config import files, render
from neuronfleet.serving.gateway.settings import GatewayFleet, GatewaySettings

GOLDEN = Path(__file__).with_name("golden.cfg")
REFRESH = f"""after a wanted change: .venv/bin/python -c '
import pathlib, sys; sys.path[:0] = ["serving", "tests/serving/gateway"]
from test_config import GOLDEN, render, settings
GOLDEN.write_text(render(settings()))'  # {GOLDEN.name}"""

LLAMA = GatewayFleet(name="llama", models=("meta-llama/Llama-3.1-8B",), queue_seconds=0.25)
QWEN = GatewayFleet(name="qwen.batch", models=("qwen", "qwen-chat"))


def settings(**changes: Any) -> GatewaySettings:
    given: dict[str, Any] = {
        "fleets": (LLAMA, QWEN),
        "port": 8080,
        "canary_port": 8081,
        "metrics_port": 8082,
        "keys_file": Path("keys"),
    }
    return GatewaySettings(**given | changes)


def test_the_configuration_is_the_golden_one() -> None:
    assert render(settings()) == GOLDEN.read_text(), REFRESH


@pytest.mark.peer
@pytest.mark.parametrize("keys_file", [None, Path("keys")])
def test_haproxy_accepts_the_configuration(tmp_path: Path, keys_file: Path | None) -> None:
    for name, text in files(settings(keys_file=keys_file)).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "keys.map").write_text("")

    check = subprocess.run(
        ["/usr/sbin/haproxy", "-c", "-f", "haproxy.cfg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (check.returncode, check.stderr) == (0, "")


def test_every_listener_is_on_loopback() -> None:
    binds = [line.split()[1] for line in render(settings()).splitlines() if " bind " in line]

    assert binds == ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"]


def test_without_a_keys_file_nobody_is_asked_for_a_key() -> None:
    assert "keys.map" not in render(settings(keys_file=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": 0}, r"port = 0, must be in \[1, 65535\]"),
        ({"canary_port": 8080}, "port = 8080, must be unique"),
        ({"max_connections": 8001}, r"max_connections = 8001, must be in \[1, 8000\]"),
        ({"idle_seconds": float("nan")}, r"idle_seconds = nan, must be in"),
        ({"fleets": ()}, r"fleets = \(\), must hold a fleet"),
        ({"fleets": (LLAMA, LLAMA)}, "fleets.name = llama, must be unique"),
        (
            {"fleets": (QWEN, GatewayFleet(name="b", models=("qwen",)))},
            "fleets.models = qwen, must be unique",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        settings(**changes)


@pytest.mark.parametrize(
    ("name", "models", "queue_seconds", "problem"),
    [
        ("_public", ("m",), 1.0, "name = _public"),
        ("a b", ("m",), 1.0, "name = a b"),
        ("a", (), 1.0, "models"),
        ("a", ("m", "with blank"), 1.0, r"models\[1\] = with blank"),
        ("a", ("m\nx y",), 1.0, r"models\[0\]"),
        ("a", ("m",), 0.0, "queue_seconds = 0.0"),
    ],
)
def test_a_wrong_fleet_is_refused(
    name: str, models: tuple[str, ...], queue_seconds: float, problem: str
) -> None:
    with pytest.raises(SpecError, match=problem):
        GatewayFleet(name=name, models=models, queue_seconds=queue_seconds)
