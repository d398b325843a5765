import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neuronfleet_replica import cli
from neuronfleet_replica.canary import Memory
from neuronfleet_replica.settings import Settings
from tests.images.replica.helpers import RAW, FakeServer, changed

ROOT = Path(__file__).parents[3]
REPLICA = ROOT / "images/replica"


def environ(**changes: Any) -> dict[str, str]:
    return {"NEURONFLEET_REPLICA": json.dumps(changed(RAW, **changes)), "PATH": os.environ["PATH"]}


class Became(Exception):
    """Raised in place of becoming another program."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """The command and environment of each program that would have been become."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def become(program: str, arguments: list[str], environ: dict[str, str]) -> None:
        assert program == arguments[0]
        calls.append((arguments, environ))
        raise Became

    monkeypatch.setattr("os.execvpe", become)
    return calls


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


def test_serve_says_each_phase_and_becomes_vllm(
    model: Path,
    became: list[tuple[list[str], dict[str, str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = environ(
        model__source={"kind": "path", "location": str(model)}, variant__env={"A": "b"}, more=1
    )

    with pytest.raises(Became):
        cli.main(["serve"], given)

    arguments, variables = became[0]
    assert arguments[:3] == ["vllm", "serve", str(model)]
    assert variables["A"] == "b"
    assert variables["PATH"] == os.environ["PATH"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    events = ["settings-ignored", "snapshot-start", "snapshot-end", "exec"]
    assert [line["event"] for line in lines] == events
    assert lines[-1]["command"] == arguments
    assert lines[-1]["ceiling"] == 4
    times = [line["at"] for line in lines]
    assert times == sorted(times)


def test_serve_forgets_what_a_canary_saw_of_an_earlier_server(
    model: Path, became: list[tuple[list[str], dict[str, str]]]
) -> None:
    from neuronfleet_replica import canary

    canary._remember(Memory(tokens=1, still=2, well=True, reason="", at=0))

    with pytest.raises(Became):
        cli.main(["serve"], environ(model__source={"kind": "path", "location": str(model)}))

    assert canary.recall() is None


@pytest.mark.parametrize("command", [["serve"], ["canary"]])
def test_wrong_settings_are_one_line_and_status_2(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command, environ(port=0)) == 2

    said = capsys.readouterr().err
    assert said == "neuronfleet-replica: port = 0, must be a whole number in [1, 65535]\n"


def test_an_image_refuses_a_variant_of_the_other_generation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["serve"], environ() | {"NEURONFLEET_GENERATION": "2"}) == 2
    assert "variant.generation = 1, must be 2: this image" in capsys.readouterr().err


def test_a_model_that_cannot_be_had_is_one_line_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = environ(model__source={"kind": "path", "location": f"{tmp_path}/none"})

    assert cli.main(["serve"], given) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_vllm_that_is_not_there_is_one_line_and_status_1(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = environ(model__source={"kind": "path", "location": str(model)})

    assert cli.main(["serve"], given | {"PATH": str(tmp_path)}) == 1
    assert "vllm" in capsys.readouterr().err


def test_a_canary_says_why_on_stderr_and_what_is_well_on_stdout(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["canary"], environ(port=server.port)) == 0
    assert capsys.readouterr() == ("answered correctly\n", "")

    server.answer = "{}"
    assert cli.main(["canary", "--timeout", "3"], environ(port=server.port)) == 1
    assert capsys.readouterr() == ("", "200 with an empty answer: the engine is dead\n")


def test_a_canary_that_can_write_nowhere_says_so(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/no/such")

    assert cli.main(["canary"], environ(port=server.port)) == 1
    assert "/proc/no/such" in capsys.readouterr().err
    assert not server.questions


@pytest.mark.parametrize("port", [0, 1])
def test_a_drain_ends_with_0_whatever_is_wrong(port: int) -> None:
    assert cli.main(["drain", "--timeout", "5"], environ(port=port)) == 0


@pytest.mark.parametrize(
    "arguments", [[], ["drain"], ["canary", "--timeout", "-1"], ["canary", "--timeout", "nan"]]
)
def test_a_wrong_command_line_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments, {})

    assert ended.value.code == 2


def test_the_programs_need_the_standard_library_alone(
    server: FakeServer, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    start = (
        f'import sys; sys.path.insert(0, "{REPLICA}")\nfrom neuronfleet_replica.cli import main\n'
    )
    python = [sys.executable, "-I", "-S", "-B", "-c", f"{start}sys.exit(main())"]

    for command in (["canary"], ["drain", "--timeout", "2", "--settle", "0"], ["--help"]):
        done = subprocess.run(
            [*python, *command],
            env=environ(port=server.port) | {"TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_launcher_starts_what_the_image_holds() -> None:
    launcher = (REPLICA / "neuronfleet-replica").read_text()

    assert "/opt/neuronfleet/replica" in launcher
    for generation in (1, 2):
        text = (ROOT / f"images/vllm-neuron-gen{generation}/Dockerfile").read_text()
        assert "COPY images/replica/neuronfleet_replica /opt/neuronfleet/replica/" in text
        assert f"NEURONFLEET_GENERATION={generation}" in text
