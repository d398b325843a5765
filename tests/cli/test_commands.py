"""The command line as its users meet it: tables, JSON, exit codes, errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from neuronfleet.cli.main import app
from tests import schema

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COMMANDS = ("plan", "up", "validate", "emulate")


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_s_help_has_an_example(command: str) -> None:
    result = run(command, "--help")

    assert result.exit_code == 0
    assert f"neuronfleet {command}" in " ".join(result.output.split())
    assert "Example" in result.output


def test_validate_says_what_a_file_declares_in_words_and_as_json() -> None:
    words = run("validate", EXAMPLES / "demo.yaml")
    document = json.loads(run("validate", EXAMPLES / "demo.yaml", "--json").stdout)

    assert words.exit_code == 0
    assert "llama-8b" in words.output
    schema.check(document, "validate")
    assert document["fleets"][0]["max_replicas"] == 4


@pytest.mark.parametrize("command", ["validate", "plan", "up", "emulate"])
def test_a_wrong_field_is_one_clear_error_and_exit_status_2(command: str, tmp_path: Path) -> None:
    wrong = tmp_path / "fleet.yaml"
    text = (EXAMPLES / "demo.yaml").read_text()
    wrong.write_text(text.replace("maxNumSeqs: 8", "maxNumSeqs: 0"))

    result = run(command, wrong)

    assert result.exit_code == 2
    assert "spec.variants[0].maxNumSeqs = 0, must be in [1, 4096]" in result.output
    assert "Traceback" not in result.output


def test_wrong_fields_are_a_json_document_too(tmp_path: Path) -> None:
    wrong = tmp_path / "fleet.yaml"
    wrong.write_text("kind: ServingFleet")

    result = run("validate", wrong, "--json")
    document = json.loads(result.stdout)

    assert result.exit_code == 2
    schema.check(document, "validate")
    assert not document["valid"]
    assert document["problems"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "nowhere.yaml"), "nowhere.yaml: No such file"),
        (("plan", EXAMPLES / "demo.yaml", "--prices", "nowhere.json"), "nowhere.json"),
        (("up", EXAMPLES / "demo.yaml", "--for", "soon"), "--for = soon, must be a duration"),
        (("emulate",), "file = nothing, must be given, or --check"),
        (("emulate", EXAMPLES / "demo.yaml", "--variant", "gpu"), "must be one of inf2"),
        (("emulate", "--check", "--evidence", "nowhere.csv"), "nowhere.csv: No such file"),
    ],
)
def test_bad_input_names_itself_and_exits_with_2(
    arguments: tuple[str | Path, ...], message: str
) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_plan_is_a_table_and_a_document() -> None:
    words = run("plan", EXAMPLES / "llama-3.1-8b.yaml")
    document = json.loads(run("plan", EXAMPLES / "llama-3.1-8b.yaml", "--json").stdout)
    dollars = {row["variant"]: row["usd_per_million_output_tokens"] for row in document[0]["rows"]}

    assert words.exit_code == 0
    assert "0.507" in words.output
    assert "cheaper elsewhere by 2.4x" in words.output
    schema.check(document, "plan")
    assert dollars["inf2"] == pytest.approx(0.507, abs=0.001)
    assert dollars["l40s"] is None


def test_the_check_gives_each_point_with_its_error_and_a_failed_run_with_none() -> None:
    result = run("emulate", "--check", "--json")
    document = json.loads(result.stdout)
    ok = [row for row in document if row["status"] == "ok"]
    failed = [row for row in document if row["status"] == "failed"]

    assert result.exit_code == 0
    schema.check(document, "emulate-check")
    assert (len(ok), len(failed)) == (27, 5)
    assert all(abs(row["error"]["output_tok_per_s"]) <= 0.015 for row in ok)
    assert all(set(row["emulated"].values()) == {None} for row in failed)


def test_foreign_evidence_is_checked_with_our_own_fit(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text(
        "model,tp_degree,max_model_len_tokens,max_num_seqs,isl_tokens,osl_tokens,concurrency,"
        "first_after_boot,num_prompts,output_tok_per_s_by_requested_tokens,p50_ttft_ms,"
        "p50_tpot_ms,status\n"
        "Llama-3.1-8B-Instruct,2,2048,32,1024,1024,8,no,32,119.31,1765.1,65.4,ok\n"
        "Some-Other-Model,2,2048,32,1024,1024,8,no,32,100,1000,60,ok\n"
    )

    result = run("emulate", "--check", "--evidence", points, "--json")
    known, unknown = json.loads(result.stdout)

    assert abs(known["error"]["output_tok_per_s"]) < 0.015
    assert unknown["status"] == "no timing model of this model"
    assert set(unknown["error"].values()) == {None}


def test_a_check_that_misses_a_bar_or_replays_nothing_fails(tmp_path: Path) -> None:
    head = (
        "model,instance_type,isl_tokens,osl_tokens,concurrency,status,"
        "output_tok_per_s_by_requested_tokens\n"
    )
    far, other = tmp_path / "far.csv", tmp_path / "other.csv"
    far.write_text(head + "Llama-3.1-8B-Instruct,inf2.xlarge,1024,1024,8,ok,40\n")
    other.write_text(head + "Llama-3.1-8B-Instruct,trn2.3xlarge,1024,1024,8,ok,40\n")

    missed = run("emulate", "--check", "--evidence", far)
    nothing = run("emulate", "--check", "--evidence", other)

    assert (missed.exit_code, nothing.exit_code) == (1, 1)
    assert "a point is outside its bar" in missed.output
    assert "no point could be replayed" in nothing.output


def test_the_check_in_words_names_the_worst_errors_and_the_knee() -> None:
    result = run("emulate", "--check")

    assert "27 of 27 points within every bar" in " ".join(result.output.split())
    assert "held back by its pool of 64" in result.output


def test_a_record_that_cannot_be_written_is_said_before_the_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    result = run("up", EXAMPLES / "demo.yaml", "--record", blocked / "record.json")

    assert result.exit_code == 1
    assert "must be a writable file" in " ".join(result.output.split())
