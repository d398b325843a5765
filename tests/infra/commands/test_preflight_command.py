"""`neuronfleet infra preflight` as its users meet it: exit status, tables, and what it writes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from neuronfleet.cli.main import app
from neuronfleet.infra.commands import preflight
from neuronfleet.infra.commands.finding import Finding, fails, fine, unknown
from neuronfleet.infra.commands.preflight import Report
from tests import schema
from tests.infra.commands.accounts import TEXT, Nobody


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "infra.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "session", lambda region, profile: Nobody())


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["infra", "preflight", *map(str, arguments)])


def found(monkeypatch: pytest.MonkeyPatch, *findings: Finding, true: bool = True) -> None:
    report = Report(findings=findings, quotas={"L-1945791B": 32}, true=true)
    monkeypatch.setattr(preflight, "preflight", lambda *_: report)


def test_all_fine_exits_with_0(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, fine("quota", "L-1945791B", "32 vCPUs"))

    result = run(file)

    assert result.exit_code == 0
    assert "1 fine, 0 would fail, 0 unknown" in result.output


def test_what_would_fail_exits_with_1_and_stands_first(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(
        monkeypatch,
        fine("zones", "us-east-2", "use2-az1"),
        unknown("AMI", "v20260403", "no permission for GetParameter"),
        fails("quota", "L-1945791B", "16 vCPUs [must] be 32"),
    )

    result = run(file)

    assert result.exit_code == 1
    order = [result.output.index(one) for one in ("16 vCPUs [must]", "no permission", "use2-az1")]
    assert order == sorted(order)


def test_unknown_is_never_fine(file: Path) -> None:
    result = run(file)

    assert result.exit_code == 1
    assert "0 fine" in result.output


def test_settings_in_a_wrong_form_exit_with_2_before_anything_is_asked(file: Path) -> None:
    file.write_text(TEXT.replace("most: 8", "most: 0"))

    result = run(file)

    assert result.exit_code == 2
    assert "pools[0].most = 0, must be in [1, 1000]" in result.output


def test_settings_that_are_not_true_exit_with_2_after_everything_is_asked(file: Path) -> None:
    file.write_text(TEXT.replace("zones: [use2-az1]", "zones: [use2-az9]"))

    result = run(file, "--json")
    document = json.loads(result.stdout)

    assert result.exit_code == 2
    assert not document["fine"]
    assert {one["what"] for one in document["findings"]} >= {"settings", "quota"}


def test_write_stores_the_quotas_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, fails("bootstrap", "us-east-2", "is absent"))

    result = run(file, "--write", "--json")

    assert result.exit_code == 1
    schema.check(json.loads(result.stdout), "infra-preflight")
    assert file.read_text().startswith(TEXT)
    assert yaml.safe_load(file.read_text())["quotas"] == {"L-1945791B": 32}
    assert "wrote quotas: L-1945791B 32" in " ".join(result.stderr.split())


def test_without_write_and_without_quotas_the_file_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(file, "--write").exit_code == 1
    found(monkeypatch)
    assert run(file).exit_code == 0

    assert file.read_text() == TEXT


def test_an_unknown_profile_is_one_clear_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    result = run(file, "--profile", "nobody-of-this-name")

    assert result.exit_code == 1
    assert "nobody-of-this-name" in result.output
    assert "Traceback" not in result.output
