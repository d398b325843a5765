"""The infra commands that need no AWS, in the environment that has no boto3 and no CDK."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from neuronfleet.cli import infra_plan, infra_preflight
from neuronfleet.cli.main import app
from neuronfleet.infra.settings import parse, truth
from neuronfleet.infra.settings.model import Settings
from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.planner.plan import plan
from tests import schema

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FULL = EXAMPLES / "infra/us-east-2.yaml"


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["infra", *(str(one) for one in arguments)])


def written(tmp_path: Path, *arguments: str | Path) -> Settings:
    file = tmp_path / "infra.yaml"
    result = run("init", *arguments, "-o", file, "--admin", "role/ClusterAdmin")
    assert result.exit_code == 0, result.output
    return parse.load(file)


@pytest.mark.parametrize("command", ["init", "preflight", "cost", "destroy-plan"])
def test_every_command_s_help_has_an_example(command: str) -> None:
    result = run(command, "--help")

    assert result.exit_code == 0
    assert f"Example: neuronfleet infra {command}" in " ".join(result.output.split())


def test_the_command_line_starts_without_boto3_and_cdk() -> None:
    code = (
        "import sys; from neuronfleet.cli import main; "
        "sys.exit(bool({'boto3', 'botocore', 'aws_cdk'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_fleet_becomes_settings_that_synthesis_takes(tmp_path: Path) -> None:
    settings = written(tmp_path, EXAMPLES / "cluster.yaml", "--region", "us-east-2")

    assert truth.check(settings, datetime.now(UTC)) == []
    assert [pool.instance_type for pool in settings.pools] == ["inf2.xlarge", "inf2.xlarge"]
    assert {pool.most for pool in settings.pools} == {8}
    assert settings.serving.fleet_namespaces == ("models",)
    assert settings.region == "us-east-2"


def test_a_model_s_bytes_are_its_weights_and_its_slots_on_each_device(tmp_path: Path) -> None:
    pool = written(tmp_path, EXAMPLES / "cluster.yaml").pools[0]
    mib = 2**20

    # 8.03e9 parameters in two bytes, and 32 sequences of 256 MiB on the one device of inf2.xlarge.
    assert pool.models[0].bytes_per_device == pytest.approx((15317 + 32 * 256) * mib, rel=1e-3)
    assert pool.models[0].fleet == "models/llama-8b"
    assert pool.models[0].tensor_parallel_degree == 2


def test_the_best_variant_needs_no_reservation_and_others_say_why_they_are_left_out() -> None:
    result = run("init", EXAMPLES / "llama-3.1-8b.yaml")
    left = " ".join(result.stderr.split())

    assert result.exit_code == 0
    assert "instanceType: inf2.xlarge" in result.stdout
    assert "trn2" not in result.stdout
    assert "variant trn2 of llama-8b: not the best of them ($0.451" in left
    assert "to be reserved first); --variant trn2 takes it" in left
    assert "variant inf2-4k of llama-8b: prefill bucket 4096 does not compile" in left
    assert "variant h200 of llama-8b: h200 is no Neuron instance" in left


def test_what_attains_the_objective_comes_before_what_is_cheaper() -> None:
    (one,) = fleet.load(EXAMPLES / "llama-3.1-8b-open.yaml").fleets
    rows = [
        replace(row, attainment=0.5) if row.variant.name == "inf2" else row
        for row in plan(one, prices.newest())
    ]

    (chosen,), _ = infra_plan.choose(one, rows, None, ())

    assert chosen.variant.name == "trn1"


def test_the_bytes_of_a_replica_are_shared_by_its_devices(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    text = (EXAMPLES / "cluster.yaml").read_text()
    text = text.replace("inf2.xlarge", "inf2.48xlarge").replace("Degree: 2", "Degree: 8")
    file.write_text(text)

    pool = written(tmp_path, file, "--variant", "inf2").pools[0]

    # TP 8 is four of its devices.
    assert pool.models[0].bytes_per_device == pytest.approx(
        (15317 + 32 * 256) * 2**20 / 4, rel=1e-3
    )


def test_a_variant_that_is_named_is_taken_with_its_reservation_left_to_be_said() -> None:
    result = run("init", EXAMPLES / "llama-3.1-8b.yaml", "--variant", "trn2")

    assert result.exit_code == 0
    assert "capacity: capacity-block" in result.stdout
    assert "TO DO: the reservation's ID" in result.stdout


def test_the_file_says_what_to_run_next_and_who_is_left_to_be_said(tmp_path: Path) -> None:
    file = tmp_path / "infra.yaml"

    result = run("init", EXAMPLES / "cluster.yaml", "-o", file)
    said = " ".join(result.stderr.split())

    assert "1 lines say TO DO" in said
    assert f"neuronfleet infra preflight {file} --write" in said
    assert f"npx cdk deploy --all -c settings={file}" in said


def test_a_fleet_s_residency_binds_the_region(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    text = (EXAMPLES / "cluster.yaml").read_text()
    file.write_text(text.replace("  queue:\n", "  residency: {regions: [eu-west-1]}\n  queue:\n"))

    assert written(tmp_path, file).region == "eu-west-1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("init", "nowhere.yaml"), "nowhere.yaml: No such file"),
        (("init", EXAMPLES / "cluster.yaml", "--variant", "gpu"), "must be one of inf2, inf2-spot"),
        (
            ("init", EXAMPLES / "cluster.yaml", "--region", "sa-east-9"),
            "no variant to deploy (inf2: sa-east-9 does not offer inf2.xlarge",
        ),
        (("init", EXAMPLES / "cluster.yaml", "--admin", "somebody"), "--admin = somebody, must be"),
        (("init", EXAMPLES / "cluster.yaml", "--name", "Fleet!"), "--name = Fleet!, must be"),
        (("init", EXAMPLES / "cluster.yaml", "-o", FULL), "exists; must be a new file"),
        (("cost", "nowhere.yaml"), "must be a readable settings file"),
        (("cost", FULL, "--prices", "nowhere.json"), "nowhere.json"),
        (("cost", EXAMPLES / "cluster.yaml"), "kind = ServingFleet, must be one of InfraSettings"),
        (("destroy-plan", FULL, "--assembly", "nowhere"), "must be a folder that `npx cdk synth`"),
    ],
)
def test_bad_input_names_itself_and_exits_with_2(
    arguments: tuple[str | Path, ...], message: str
) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_bill_is_a_table_and_a_document_and_says_what_it_lacks() -> None:
    words = run("cost", FULL)
    document = json.loads(run("cost", FULL, "--json").stdout)
    said = " ".join(words.output.split())

    assert words.exit_code == 0
    schema.check(document, "infra-cost")
    assert "all us-east-2 at least $" in said
    assert "pool trn1-efa $0.00 $31,470.00" in said
    assert "unknown: 0 to 4 trn1.2xlarge, spot: no spot price" in said
    assert document["pools"]["trn1-efa"]["most"]["usd_per_month"] == 31470.0


def test_an_end_is_told_in_words_and_as_a_document() -> None:
    words = run("destroy-plan", FULL)
    document = json.loads(run("destroy-plan", FULL, "--json").stdout)

    assert words.exit_code == 0
    schema.check(document, "infra-destroy-plan")
    assert "What deletes data, and nothing else does:" in words.output
    assert "kubectl delete nodepools --all" in words.output


def test_preflight_without_boto3_names_the_environment_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(infra_preflight, "find_spec", lambda name: None)

    result = run("preflight", FULL)

    assert result.exit_code == 1
    assert "needs boto3" in result.output
    assert ".venv-infra/bin/neuronfleet infra preflight" in " ".join(result.output.split())
